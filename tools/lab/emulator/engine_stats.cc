// What `stats` on the control socket answers.
#include "tools/lab/emulator/engine.h"

#include <nlohmann/json.hpp>

namespace tandem::lab
{

using nlohmann::json;

namespace
{

json drops_json(const std::array<std::uint64_t, medium::drop_reason_count>& drops)
{
  json result = json::object();
  for (std::size_t i = 0; i < drops.size(); ++i)
    result[std::string(medium::name(static_cast<medium::DropReason>(i)))] = drops[i];
  return result;
}

json pipe_json(const medium::Pipe& pipe)
{
  const auto& s = pipe.stats();
  return { { "packets", s.delivered },
           { "bytes", s.delivered_bytes },
           { "offered_packets", s.submitted },
           { "offered_bytes", s.submitted_bytes },
           { "marked", s.marked },
           { "queued", pipe.queued() },
           { "busy_ms", milliseconds(s.busy) },
           { "drops", drops_json(s.drops) } };
}

json node_json(const medium::NodeStats& s)
{
  return { { "packets", s.delivered }, { "bytes", s.delivered_bytes },    { "offered_packets", s.submitted },
           { "attempts", s.attempts }, { "accesses", s.exchanges },       { "collisions", s.collisions },
           { "errors", s.errors },     { "air_ms", milliseconds(s.air) }, { "drops", drops_json(s.drops) } };
}

} // namespace

json Engine::stats() const
{
  const auto us = [](Duration d) { return static_cast<double>(d.count()) / 1000; };
  json nodes = json::object();
  const medium::Air& air = topology_.air();
  json down = json::object();
  for (std::size_t i = 0; i < scenario_.aps.size(); ++i)
  {
    json ap = node_json(air.stats(topology_.ap_node(i)));
    ap["channel_busy_ms"] = milliseconds(air.busy(topology_.ap_node(i)));
    std::size_t queued = 0;
    for (std::size_t j = 0; j < topology_.interfaces(); ++j)
      queued += air.queued(topology_.ap_node(i), topology_.client(j));
    ap["queued"] = queued;
    ap["signal_dbm"] = air.signal(topology_.client(), topology_.ap_node(i), now());
    nodes[scenario_.aps[i].name] = std::move(ap);
  }
  nodes["client"] = node_json(air.stats(topology_.client()));
  for (std::size_t i = 1; i < topology_.interfaces(); ++i)
    nodes["wlan" + std::to_string(i)] = node_json(air.stats(topology_.client(i)));
  for (std::size_t i = 0; i < scenario_.stations.size(); ++i)
    nodes[scenario_.stations[i].name] = node_json(air.stats(topology_.station_node(i)));
  json ports = json::array();
  for (const auto& port : ports_)
    ports.push_back({ { "netns", port.device.netns },
                      { "name", port.device.name },
                      { "from_kernel", port.received },
                      { "to_kernel", port.sent },
                      { "refused_by_kernel", port.refused } });
  json wan = json::object();
  for (std::size_t i = 0; i < scenario_.servers.size(); ++i)
    wan[scenario_.servers[i].name] = { { "down", pipe_json(topology_.wan_pipe(i, true)) },
                                       { "up", pipe_json(topology_.wan_pipe(i, false)) } };
  json at = json::object();
  for (std::size_t i = 0; i < topology_.interfaces(); ++i)
    at["wlan" + std::to_string(i)] = scenario_.aps[topology_.associated_ap(i)].name;
  json wifi { { "ap", scenario_.aps[topology_.associated_ap()].name }, { "at", at }, { "nodes", nodes } };
  if (const medium::Pipe* pipe = topology_.wifi_pipe(true))
  {
    wifi["down"] = pipe_json(*pipe);
    wifi["up"] = pipe_json(*topology_.wifi_pipe(false));
  }
  return { { "ok", true },
           { "time_s", seconds(now().time_since_epoch()) },
           { "release_error_us",
             { { "p50", us(release_error_.percentile(0.5)) },
               { "p99", us(release_error_.percentile(0.99)) },
               { "max", us(release_error_.max()) },
               { "count", release_error_.count() } } },
           { "loops", loops_ },
           { "packets_held", pool_.in_use() },
           { "wifi", wifi },
           { "cell",
             { { "down", pipe_json(topology_.cell_pipe(true)) }, { "up", pipe_json(topology_.cell_pipe(false)) } } },
           { "wan", wan },
           { "ports", ports },
           { "frames", { { "sent", frames_sent_ }, { "lost", frames_->lost() } } } };
}

} // namespace tandem::lab
