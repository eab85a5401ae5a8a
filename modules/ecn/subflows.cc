#include "modules/ecn/subflows.h"

#include <algorithm>

namespace tandem::ecn
{

namespace
{

constexpr Duration least_span = std::chrono::seconds { 5 }; // of one of the two spans of Path::least

} // namespace

Duration Path::least_rtt() const
{
  const Duration both = std::min(least[0], least[1]);
  return both == Duration::max() ? smoothed : both;
}

State::~State()
{
  if (owner != nullptr) owner->left(*this);
}

void Subflows::left(const State& state)
{
  --paths_[at(state.link)].flows;
  const auto connection = connections_.find(state.token);
  if (connection == connections_.end()) return;
  auto& flows = connection->second.flows;
  --flows[at(state.link)];
  if (std::all_of(flows.begin(), flows.end(), [](std::uint16_t n) { return n == 0; })) connections_.erase(connection);
}

void Subflows::account(const Event& event, const FlowView& flow, State& state)
{
  Path& path = paths_[at(flow.link)];
  if (state.owner == nullptr)
  {
    state.owner = this;
    state.link = flow.link;
    state.token = flow.mptcp_token;
    state.counted = flow.bytes_delivered; // what came before is no goodput of now
    ++path.flows;
    Connection& connection = connections_[state.token];
    ++connection.flows[at(flow.link)];
    if (flow.mptcp_version) connection.version = flow.mptcp_version;
  }
  if (event.kind == EventKind::segment)
  {
    const bool ends = event.segment->has(tcp_flag::fin | tcp_flag::rst);
    if (ends || !state.over) connections_[state.token].passed[at(state.link)] = ends ? Tick::min() : event.now;
    state.over = state.over || ends;
  }
  path.delivered += flow.bytes_delivered - state.counted;
  state.counted = flow.bytes_delivered;
  if (flow.rtt_smoothed > Duration {})
  {
    path.smoothed = flow.rtt_smoothed;
    if (event.now - path.least_from >= least_span)
    {
      path.least = { Duration::max(), path.least[0] };
      path.least_from = event.now;
    }
    if (flow.rtt_min > Duration {}) path.least[0] = std::min(path.least[0], flow.rtt_min);
  }
  // ECT(1) is what L4S senders use (RFC 9331), who answer marks in proportion: the equation is not about them.
  if (flow.ecn && event.kind == EventKind::segment && event.segment->direction == Direction::ingress
      && (flow.ecn_seen == tandem::Ecn::ect0 || flow.ecn_seen == tandem::Ecn::ce))
    path.markable_at = event.now;
}

std::uint64_t Subflows::delivered() const
{
  std::uint64_t sum = 0;
  for (const Path& path : paths_)
    sum += path.delivered;
  return sum;
}

bool Subflows::siblings(Link link) const
{
  for (const auto& [token, connection] : connections_)
    for (std::size_t i = 0; i < most_wifi && connection.flows[at(link)] > 0; ++i)
      if (wifi_link(i) != link && connection.flows[at(wifi_link(i))] > 0) return true;
  return false;
}

// Whether all connections on this link, one at least, have subflows on another Wi-Fi link that is good for them.
template <class Good>
bool Subflows::all_have_another(Link link, Good good) const
{
  bool any = false;
  for (const auto& [token, connection] : connections_)
  {
    if (connection.flows[at(link)] == 0) continue;
    bool found = false;
    for (std::size_t i = 0; i < most_wifi; ++i)
      if (const Link other = wifi_link(i); other != link && connection.flows[at(other)] > 0)
        found = found || good(connection, other);
    if (!found) return false;
    any = true;
  }
  return any;
}

bool Subflows::all_have_better(Link link, const Ranking& ranking, const LinkStates& links) const
{
  return all_have_another(link, [&](const Connection&, Link other)
                          { return links[at(other)].up && !ranking.worse(wifi_number(other)); });
}

bool Subflows::all_go_on_without(Link link, const LinkStates& links) const
{
  return all_have_another(link, [&](const Connection& connection, Link other)
                          { return links[at(other)].up && connection.passed[at(other)] >= links[at(other)].changed; });
}

bool Subflows::all_version_0(Link link) const
{
  return std::all_of(connections_.begin(), connections_.end(),
                     [&](const auto& entry)
                     { return entry.second.flows[at(link)] == 0 || entry.second.version.value_or(1) == 0; });
}

} // namespace tandem::ecn
