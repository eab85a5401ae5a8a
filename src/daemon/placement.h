// Which links get new TCP connections, and how many of them each. Pure: from the configuration, what the links are, and
// what they have been seen to carry.
#pragma once

#include "src/daemon/config.h"
#include "src/daemon/exclusion.h"
#include "src/kernel/rules/placement_rules.h"
#include "src/links/link_table.h"

#include <tandem/link.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{

// Where a link's own stands in an array of link_count.
constexpr std::size_t at(Link link)
{
  return static_cast<std::size_t>(link);
}

// What is known of a link besides its LinkInfo.
struct LinkOutlook
{
  bool up = false;                // as modules hear it: a blackout is not up
  double capacity = 0;            // bytes per second that it was seen to carry; 0: not known
  std::optional<Duration> rtt {}; // to answered connections, lately
  std::string barred {};          // why it gets no new connection; empty: it may
  bool away = false;              // the card is mostly on another channel: none while another link takes some
};

struct PlacementInputs
{
  const Config& config;
  const links::LinkTable& links;
  const Exclusions& exclusions;
  const std::array<LinkOutlook, link_count>& outlook;
  std::string hands_off {}; // why nothing is placed; empty: no reason
  bool tunnel = false;      // that is a tunnel: what was placed before must not go on around it
};

struct PlacementDecision
{
  kernel::PlacementPlan plan {};
  std::string why {}; // why no connection is placed; empty: they are
  struct Part
  {
    double share = 0;   // of new connections (IPv4; IPv6 when there is none by it)
    std::string why {}; // why none
  };
  std::array<std::optional<Part>, link_count> parts {}; // nothing: the link has no interface, or nobody asks it
};

PlacementDecision place(const PlacementInputs& inputs, const PlacementDecision& before);

// The number that a link's connections bear (PlacementLink::value); home has kernel::placed_at_home.
constexpr std::uint32_t placement_value(Link link)
{
  return static_cast<std::uint32_t>(link == Link::cell ? most_wifi + 1 : wifi_number(link) + 1);
}

constexpr unsigned placement_turns = 20; // a share is a number of these

// How many turns each gets of all, as near to the shares as may be; who has a share gets one at least. Shares need not
// sum to one.
std::vector<unsigned> turns_of(const std::vector<double>& shares, unsigned all = placement_turns);

// The order of turns in which everybody waits as evenly as possible (smooth weighted round robin).
std::vector<std::uint32_t> in_order(std::vector<std::pair<std::uint32_t, unsigned>> turns);

// Private networks and those that the links are on: another link leads elsewhere for them.
std::vector<std::string> local_networks(const links::LinkTable& links, bool private_ones);

// What a link can carry, as far as has been seen: the most that has arrived by it in a second. It fades while the link
// carries less, over minutes; while it carries nothing, nothing is learnt.
class LinkCapacity
{
public:
  // Bytes that have arrived, since whenever. Looks less than half a second apart are one.
  void look(Tick now, std::uint64_t bytes);
  double bytes_per_second() const { return most_; }

private:
  std::optional<Tick> looked_ {};
  std::uint64_t bytes_ = 0;
  double most_ = 0;
};

// Whether what is begun by a link is answered at all. One behind a portal, or with a dead wire behind its access point,
// gets nothing new for a while, longer each time.
class LinkTrial
{
public:
  void look(Tick now, std::uint64_t begun, std::uint64_t answered);
  bool barred(Tick now) const { return now < until_; }

private:
  std::uint64_t begun_ = 0, answered_ = 0; // when it was last answered
  std::optional<Tick> unanswered_since_ {};
  Tick until_ {};
  Duration pause_ {};
};

} // namespace tandem::daemon
