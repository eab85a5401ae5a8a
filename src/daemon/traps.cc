#include "src/daemon/traps.h"

#include "src/wire/text.h"

#include <algorithm>

namespace tandem::daemon
{

namespace
{

constexpr Duration window = std::chrono::seconds { 1 };

} // namespace

std::optional<std::uint64_t> Traps::add(const Trap& trap, bool save)
{
  if (all_.size() >= most) return {};
  all_.push_back({ .id = next_++, .trap = trap, .save = save });
  return all_.back().id;
}

bool Traps::remove(std::uint64_t id)
{
  const bool there = std::erase_if(all_, [id](const One& one) { return one.id == id; }) > 0;
  if (all_.empty()) tracks_.clear();
  return there;
}

Traps::One* Traps::find(std::uint64_t id)
{
  const auto at = std::find_if(all_.begin(), all_.end(), [id](const One& one) { return one.id == id; });
  return at == all_.end() ? nullptr : &*at;
}

void Traps::follow(Track& track, const FlowView& view, Tick now) const
{
  const std::size_t size = track.at.size();
  const std::size_t newest = (track.looks + size - 1) % size;
  track.arriving = track.looks > 0 && view.bytes_delivered != track.delivered[newest];
  track.measured = false;
  // The youngest look that is a second old, or the oldest there is.
  std::size_t from = newest;
  const std::size_t known = std::min(track.looks, size);
  for (std::size_t back = 0; back < known; ++back)
  {
    from = (newest + size - back) % size;
    track.measured = now - track.at[from] >= window;
    if (track.measured) break;
  }
  if (known > 0 && now > track.at[from])
  {
    const auto bytes = static_cast<double>(view.bytes_delivered - track.delivered[from]);
    track.goodput = 8 * bytes / seconds(now - track.at[from]);
    if (track.arriving)
      track.active = bytes >= static_cast<double>(active_bytes) * std::min(1.0, seconds(now - track.at[from]));
  }
  const std::size_t next = track.looks % size;
  track.at[next] = now;
  track.delivered[next] = view.bytes_delivered;
  ++track.looks;
}

std::optional<double> Traps::of_flow(const Trap& trap, const Track& track, const FlowView& view, Tick now)
{
  switch (trap.on)
  {
  case TrapOn::flow_gap:
  case TrapOn::link_silence:
    return track.active ? std::optional { seconds(now - view.last_seen) } : std::nullopt;
  case TrapOn::flow_rtt:
    return view.rtt_smoothed > Duration {} && now - view.rtt_at < window ? std::optional { seconds(view.rtt_smoothed) }
                                                                         : std::nullopt;
  case TrapOn::flow_goodput:
    // What stands still is for flow.gap, and what has ended is no slow download.
    return track.measured && track.active && track.arriving ? std::optional { track.goodput } : std::nullopt;
  case TrapOn::link_signal:
  case TrapOn::link_down:
    break;
  }
  return {};
}

// The value that is furthest on the trap's side.
std::optional<Traps::Seen> Traps::worst(const Trap& trap, chain::Chain& chain, Tick now)
{
  const LinkState& wifi = chain.link_states()[static_cast<std::size_t>(Link::wifi)];
  if (trap.on == TrapOn::link_signal)
  {
    if (!wifi.radio || !wifi.radio->signal) return {};
    return Seen { *wifi.radio->signal, "wifi" };
  }
  if (trap.on == TrapOn::link_down)
  {
    if (!wifi.present || wifi.up) return {};
    return Seen { seconds(now - wifi.changed), "wifi" };
  }
  const bool together = trap.on == TrapOn::link_silence;
  std::optional<Seen> worst {};
  chain.table().each(
      [&](const flow::Flow& flow)
      {
        const auto track = tracks_.find(flow.view.id);
        if (flow.closed || track == tracks_.end() || (together && flow.view.link != Link::wifi)) return;
        const auto value = of_flow(trap, track->second, flow.view, now);
        if (!value) return;
        // A link is as silent as its least silent flow.
        const bool above = trap.above != together;
        if (worst && (above ? *value <= worst->value : *value >= worst->value)) return;
        worst = Seen { *value, together ? "wifi"
                                        : wire::to_string(flow.view.key.local, flow.view.key.local_port) + " - "
                                              + wire::to_string(flow.view.key.remote, flow.view.key.remote_port) };
      });
  return worst;
}

std::vector<std::uint64_t> Traps::look(chain::Chain& chain, Tick now)
{
  std::vector<std::uint64_t> fired {};
  if (all_.empty()) return fired;
  ++generation_;
  chain.table().each(
      [&](const flow::Flow& flow)
      {
        Track& track = tracks_[flow.view.id];
        track.generation = generation_;
        follow(track, flow.view, now);
      });
  std::erase_if(tracks_, [this](const auto& each) { return each.second.generation != generation_; });
  for (One& one : all_)
  {
    const std::optional<Seen> seen = worst(one.trap, chain, now);
    const bool caught = seen && one.trap.caught(seen->value);
    const bool fires = caught && !one.within && (one.fired == 0 || now - one.fired_at >= rest);
    one.within = caught && (one.within || fires);
    if (!fires) continue;
    ++one.fired;
    one.fired_at = now;
    one.saw = one.trap.value_text(seen->value) + " of " + seen->of;
    one.flow = one.trap.text().starts_with("flow.") ? seen->of : std::string {};
    fired.push_back(one.id);
  }
  return fired;
}

} // namespace tandem::daemon
