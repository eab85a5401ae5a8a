// CE marks on a worse link at the rate of equation 5, where they move load and mislead nobody.
#pragma once

#include "modules/ecn/delta.h"
#include "modules/ecn/strategy.h"

#include <tandem/knob_table.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace tandem::ecn
{

enum class Sender : std::uint8_t
{
  automatic, // coupled when it speaks MPTCP version 0
  coupled,
  uncoupled,
};

enum class RttChoice : std::uint8_t
{
  least,
  smoothed,
};

class Marking
{
public:
  static constexpr std::array<std::string_view, 3> senders { "automatic", "coupled", "uncoupled" };
  static constexpr std::array<std::string_view, 3> pole_words { "cap", "formula", "nothing" };
  static constexpr std::array<std::string_view, 2> rtt_words { "least", "smoothed" };

  struct Knobs
  {
    double sender = 0;     // Sender
    double rtt = 0;        // RttChoice
    double below_pole = 0; // BelowPole
  };
  // The paper leaves the last two open; tools/bench measures both readings.
  static constexpr std::array<KnobRow<Knobs>, 3> rows { {
      { { .name = "sender",
          .type = KnobType::choice,
          .maximum = static_cast<double>(senders.size() - 1),
          .help =
              "whether senders couple their subflows (LIA, OLIA), so that marks move load; automatic: MPTCP version "
              "0 does, version 1, Linux since 5.6, does not (measured)",
          .choices = senders },
        &Knobs::sender },
      { { .name = "below_pole",
          .type = KnobType::choice,
          .maximum = static_cast<double>(pole_words.size() - 1),
          .help = "marks where the round-trip time is below BUF / 4 packet times and equation 5 has no meaning: the "
                  "cap, what the formula gives as printed, or nothing",
          .choices = pole_words },
        &Knobs::below_pole },
      { { .name = "rtt",
          .type = KnobType::choice,
          .maximum = static_cast<double>(rtt_words.size() - 1),
          .help = "round-trip time for equation 5: the least of the last seconds, which a full queue does not hide, or "
                  "the smoothed one",
          .choices = rtt_words },
        &Knobs::rtt },
  } };

  // Whether senders on this link couple their subflows.
  bool coupled(Link link, const Subflows& subflows) const;
  // The share of packets arriving by this link to mark.
  double rate(Link link, const View& view) const;

  Knobs knobs {};
};

} // namespace tandem::ecn
