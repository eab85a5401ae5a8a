// What can be turned of rate: the parameters of table II of Sinky et al., and whether R0 is to be kept.
#pragma once

#include "modules/rate/cla.h"

#include <tandem/knob_table.h>

#include <array>
#include <string>

namespace tandem::rate
{

struct Knobs
{
  double strategy = 0; // into strategy_words
  double promise = 0;
  double roam = 0;
  double uploads = 0;
  double r0_up = 0; // not the paper's
  double r0 = ClaParameters {}.R0, c1 = ClaParameters {}.C1, c2 = ClaParameters {}.C2, r1h = ClaParameters {}.R1h;
  double delta0 = ClaParameters {}.delta0, delta1 = ClaParameters {}.delta1, delta2 = ClaParameters {}.delta2;
  double noise = -95;
};

constexpr std::array<std::string_view, 2> strategy_words { "account", "published" };

namespace detail
{

constexpr double slowest = 1e5, fastest = 1e10; // bits/s

constexpr KnobRow<Knobs> rate_row(double Knobs::*field, std::string_view name, double minimum, std::string_view help)
{
  return { { .name = name, .unit = "bit/s", .minimum = minimum, .maximum = fastest, .help = help }, field };
}
constexpr KnobRow<Knobs> signal_row(double Knobs::*field, std::string_view name, std::string_view help)
{
  return { { .name = name, .unit = "dB", .minimum = 1, .maximum = 60, .help = help }, field };
}

} // namespace detail

constexpr std::array<KnobRow<Knobs>, 13> knob_rows { {
    { { .name = "strategy",
        .type = KnobType::choice,
        .maximum = strategy_words.size() - 1,
        .help = "account: cellular while something of R0 is owed; published: rates by algorithms 1 and 2, for "
                "comparison",
        .choices = strategy_words },
      &Knobs::strategy },
    { { .name = "promise",
        .type = KnobType::boolean,
        .maximum = 1,
        .help =
            "keep MPTCP downloads at `r0` by the cellular link, which costs what `[budget]` allows; off: nothing of "
            "rate's goes by cellular" },
      &Knobs::promise },
    { { .name = "roam",
        .type = KnobType::boolean,
        .maximum = 1,
        .help = "ask wpa_supplicant to move the card to a stronger access point of its network in the handoff stage "
                "(docs/aps.md); off: the card moves when its own software wants to" },
      &Knobs::roam },
    { { .name = "uploads",
        .type = KnobType::boolean,
        .maximum = 1,
        .help = "bound the pace of this laptop's uploads by Wi-Fi in the stages before a handoff, by BPF or at the "
                "interface (docs/decisions/0032); off: uploads are left alone" },
      &Knobs::uploads },
    detail::rate_row(&Knobs::r0, "r0", detail::slowest,
                     "R0: what all MPTCP downloads together are to have at least, e.g. \"18Mbit\"; not above `c1` + "
                     "`c2` (table II)"),
    detail::rate_row(&Knobs::r0_up, "r0_up", 0,
                     "with `promise`: what all MPTCP uploads together are to have at least, not above `c1` + `c2`; 0: "
                     "of uploads nothing is promised"),
    detail::rate_row(&Knobs::c1, "c1", detail::slowest, "C1: capacity of the Wi-Fi link (table II)"),
    detail::rate_row(&Knobs::c2, "c2", detail::slowest, "C2: capacity of the cellular link (table II)"),
    detail::rate_row(&Knobs::r1h, "r1h", 0,
                     "R1h: what the Wi-Fi link still carries at a handoff, not above `c1` (table II)"),
    detail::signal_row(&Knobs::delta0, "delta0",
                       "scan trigger: below this signal over the noise the card looks for another access point (table "
                       "II)"),
    detail::signal_row(&Knobs::delta1, "delta1",
                       "pre-handoff trigger: no handoff is near while the candidate is so much weaker (table II)"),
    detail::signal_row(&Knobs::delta2, "delta2",
                       "handoff trigger: a candidate so much stronger is changed to (table II)"),
    { { .name = "noise",
        .unit = "dBm",
        .minimum = -110,
        .maximum = -50,
        .help =
            "noise floor: S1 and S2 are signals over it; -95 is thermal noise in 20 MHz and a noise figure of 6 dB" },
      &Knobs::noise },
} };

inline ClaParameters parameters(const Knobs& knobs)
{
  return { .C1 = knobs.c1,
           .C2 = knobs.c2,
           .R1h = knobs.r1h,
           .R0 = knobs.r0,
           .delta0 = knobs.delta0,
           .delta1 = knobs.delta1,
           .delta2 = knobs.delta2 };
}

} // namespace tandem::rate
