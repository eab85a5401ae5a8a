#include "tools/trace/effects.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string_view>

namespace tandem::trace_tool
{
namespace
{

using trace::Disposition;

std::string decimals(double value, int digits)
{
  std::array<char, 40> text {};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string spared(const Effects& effects)
{
  const std::uint64_t all = effects.by_cell + effects.left_out;
  std::string text = "the Wi-Fi had " + amount(all, "packet") + " less to carry up: ";
  if (effects.by_cell != 0)
    text += amount(effects.by_cell, "packet") + " by cellular, "
            + decimals(static_cast<double>(effects.by_cell_bytes) * 1e-3, 1) + " kB";
  if (effects.left_out != 0)
    text += std::string { effects.by_cell != 0 ? "; " : "" } + amount(effects.left_out, "ACK")
            + " for which a later one stands";
  return text;
}

std::string resumed(const Effects& effects)
{
  std::string text = "after the Wi-Fi was back data came again in ";
  for (std::size_t i = 0; i < effects.resumed_ns.size(); ++i)
    text += (i == 0                               ? ""
             : i + 1 == effects.resumed_ns.size() ? " and "
                                                  : ", ")
            + decimals(static_cast<double>(effects.resumed_ns[i]) * 1e-6, 0);
  return text + " ms";
}

} // namespace

void note(const Event& event, Effects& effects)
{
  const auto disposition = event.disposition();
  if (!disposition) return;
  const std::string_view why = event.why();
  const bool moved = *disposition == Disposition::edited && event.after && event.after->link == Link::cell
                     && event.packet.link != Link::cell;
  if (moved) ++effects.by_cell, effects.by_cell_bytes += event.after->length;
  if (*disposition == Disposition::dropped) ++effects.left_out;
  if (why.starts_with("mirror: hidden")) ++effects.losses_hidden;
  if (why.starts_with("freeze: ") && (*disposition == Disposition::injected || *disposition == Disposition::edited))
    effects.froze = true;
}

std::vector<std::int64_t> wifi_returns(const std::vector<LinkMoment>& links)
{
  std::vector<std::int64_t> returns;
  std::optional<bool> up;
  for (const LinkMoment& now : links)
  {
    if (now.link != Link::wifi) continue;
    if (now.up && up == false) returns.push_back(now.time_ns);
    up = now.up;
  }
  return returns;
}

std::vector<std::string> effects_in_words(const Effects& effects)
{
  std::vector<std::string> all;
  if (effects.by_cell + effects.left_out != 0) all.push_back(spared(effects));
  if (effects.losses_hidden != 0)
    all.push_back(amount(effects.losses_hidden, "time")
                  + " the server was not told of losses on the air, for which it would have slowed down");
  if (effects.froze && !effects.resumed_ns.empty()) all.push_back(resumed(effects));
  return all;
}

} // namespace tandem::trace_tool
