// Which MPTCP connections have subflows on which links, and what is known of all subflows of one link together.
#pragma once

#include "modules/ecn/ranking.h"

#include <tandem/module.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>

namespace tandem::ecn
{

// Of all MPTCP subflows on one link.
struct Path
{
  std::uint32_t flows = 0;
  std::uint64_t delivered = 0;                                        // bytes, of flows that ended too
  Duration smoothed {};                                               // of the subflow that was heard last
  std::array<Duration, 2> least { Duration::max(), Duration::max() }; // of this span of time and the one before
  Tick least_from {};
  Tick markable_at {}; // when ECN-capable data arrived last

  // The least round-trip time of the last seconds, which a full queue does not hide.
  Duration least_rtt() const;
};

class Subflows;

// Of one flow. Takes itself off the list at its end.
struct State
{
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Subflows* owner = nullptr; // set with the first event of an MPTCP subflow
  Link link = Link::other;
  bool over = false; // closed or reset; such a flow is known for a few seconds more
  std::uint32_t token = 0;
  std::uint64_t counted = 0; // bytes_delivered that the path knows of
};

class Subflows
{
public:
  void account(const Event& event, const FlowView& flow, State& state);
  void left(const State& state);

  const Path& path(Link link) const { return paths_[at(link)]; }
  const std::array<Path, link_count>& paths() const { return paths_; }
  std::uint64_t delivered() const; // bytes, on all links

  // Whether some connection has subflows on this link and on another Wi-Fi link.
  bool siblings(Link link) const;
  // Whether all connections on this link, one at least, have subflows on a Wi-Fi link that is up and not worse.
  bool all_have_better(Link link, const Ranking& ranking, const LinkStates& links) const;
  // Likewise on one by which something of theirs has passed since it is up.
  bool all_go_on_without(Link link, const LinkStates& links) const;
  // Whether all connections on this link speak MPTCP version 0.
  bool all_version_0(Link link) const;

private:
  // Whose subflows are where.
  struct Connection
  {
    std::array<std::uint16_t, link_count> flows {};
    std::optional<std::uint8_t> version {};
    // When a segment of it went by each link last; nothing once a subflow there was closed, until another one has.
    std::array<Tick, link_count> passed {};
  };

  template <class Good>
  bool all_have_another(Link link, Good good) const;

  std::array<Path, link_count> paths_ {};
  std::map<std::uint32_t, Connection> connections_; // by the server's token
};

} // namespace tandem::ecn
