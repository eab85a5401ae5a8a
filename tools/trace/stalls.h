// `tandem trace explain --stalls`: when a download stood still, and why, as far as the laptop's side of it tells.
//
// A stall is a time in which nothing new could be handed to the application although something was under way or asked
// for. What the server did meanwhile is read from its timestamps (RFC 7323): they say when it sent what came late.
#pragma once

#include "tools/trace/event.h"
#include "tools/trace/flow_book.h"
#include "tools/trace/stall.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::trace_tool
{

class StallFinder
{
public:
  // Shorter ones are none; neither is what takes no more than two round trips.
  explicit StallFinder(std::int64_t shortest_ns = 200'000'000) : shortest_ns_ { shortest_ns } {}

  // Packets in the order of the recording. `found`: what FlowBook says of event.packet.
  void take(const Event& event, const FlowBook::Found& found);
  // In the order of the flows' numbers. `returns`: when the Wi-Fi came back, as wifi_returns() says.
  std::vector<FlowStory> finish(const std::vector<std::int64_t>& returns = {});

private:
  void arrived(StalledFlow& flow, const Segment& segment, std::int64_t at);
  void recorded(StalledFlow& flow, const Segment& segment, trace::Disposition disposition);
  void acknowledged(StalledFlow& flow, const Segment& segment, std::uint64_t ack, std::int64_t at);
  void left(StalledFlow& flow, const Event& event, const Segment& segment, std::int64_t at);

  std::int64_t shortest_ns_;
  std::vector<StalledFlow> flows_ {};
  std::vector<std::int64_t> arrivals_ {}; // of any packet
};

} // namespace tandem::trace_tool
