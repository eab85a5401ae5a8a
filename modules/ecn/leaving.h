// When a link that is to be left out is left: at once, or, where a sender couples its subflows and the others do not
// carry the download yet, after marks have taken its window down. Pure.
//
// OLIA adds to a window in proportion to its share of all windows, those of subflows that lie idle included. A subflow
// that was cut down to one packet at its access point's edge then stays there for tens of seconds beside the window of
// the access point that was left.
#pragma once

#include <tandem/link.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::ecn
{

class Leaving
{
public:
  using Links = std::array<bool, most_wifi>;

  // With every look: bytes of each link since start.
  void look(std::span<const std::uint64_t, most_wifi> delivered, Tick now);
  // Whether a link that was good until now and is not to be used any more (not in `wanted`) shall still be for a while,
  // marked. Ask only where marks work.
  bool later(std::size_t link, const Links& wanted, Tick now) const;
  // Whether `link` carries more than those that are to be used instead.
  bool carries_more(std::size_t link, const Links& others) const;
  // What came of it.
  void told(const Links& used, const Links& good, Tick now);

private:
  std::array<std::uint64_t, most_wifi> delivered_ {};
  std::array<double, most_wifi> rates_ {}; // bytes per second, over the last half second or so
  Tick looked_ {};
  Links used_ {}, good_ {};
  std::array<std::optional<Tick>, most_wifi> leaves_ {}; // since when
};

} // namespace tandem::ecn
