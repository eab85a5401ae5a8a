// How the worse access points are kept out: ours (closed_loop.h) and the published ways (published.h, on_off.h), each
// behind this interface.
#pragma once

#include "modules/ecn/ranking.h"
#include "modules/ecn/subflows.h"

#include <tandem/module.h>

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>

namespace tandem::ecn
{

constexpr Duration look_every = std::chrono::milliseconds { 100 };

// What is to be done to a link.
struct Treatment
{
  double ce_rate = 0;
  bool backup = false;
  bool dead = false; // no endpoint

  bool operator==(const Treatment&) const = default;
};
using Treatments = std::array<Treatment, link_count>;

// What a strategy sees at every look.
struct View
{
  Tick now {};
  const LinkStates& links;
  const Subflows& subflows;
  const Ranking& ranking;
  std::span<const std::optional<Duration>, most_wifi> times; // T_i
  std::array<bool, most_wifi> sought {}; // used again since their signal is the strongest; no T_i yet
  bool changed = false;                  // other links than before, or another order

  std::size_t worse() const { return ranking.order().size() - ranking.good(); }
};

class Strategy
{
public:
  virtual ~Strategy() = default;

  // Another strategy was chosen, or this one anew.
  virtual void restart() {}
  // With every look, also when there is nothing to choose.
  virtual void look(const View&) {}
  // Two or more links share one channel: says what is wanted of each, and when to look again.
  virtual Tick treat(const View& view, Treatments& wanted) = 0;
  // Literal, after treat().
  virtual std::string_view why(const View& view) const = 0;
  // Confidence from which on a packet time counts; until then the one before does.
  virtual double least_confidence() const { return 0.2; }
  virtual void describe(Facts&) const {}
};

} // namespace tandem::ecn
