// What the chain wants done after an event. It calls nobody: whoever called it carries this out, in this order.
#pragma once

#include <tandem/module.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::chain
{

// What the server knows of a flow, for the case that a segment could not be sent after all.
struct Known
{
  Seq ack {};
  TsClock ts_value {};
  std::uint16_t window = 0;
  std::uint16_t told = 0; // FlowView::told_window
  bool any = false;

  bool operator==(const Known&) const = default;
};

// The chain itself, rather than a module.
constexpr std::uint8_t no_slot = 0xff;

// A segment that leaves now. The flow may be forgotten by the time it is sent, so all that is needed is here.
struct Injection
{
  std::uint64_t flow = 0; // FlowView::id
  FlowKey key {};
  InjectedSegment segment {};
  std::string_view why {};
  Known before {};             // what the server knew
  std::uint8_t slot = no_slot; // of the module that asked for it
  std::uint32_t ip_class = 0;  // of the flow's own packets
};

// What a module asks of a link. The same may come again and again: it is a state, not an event.
struct ModuleRequest
{
  LinkRequest request {};
  std::uint8_t slot = 0; // of the module
  std::string_view why {};
};

// What a module asks of this host's TCP on a flow.
struct PaceRequest
{
  FlowKey key {};
  Pace pace {};
  std::uint8_t slot = 0; // of the module
};

// Bytes of a download to be got a second time. Chain::fetched() or Chain::fetch_refused() answers it.
struct FetchRequest
{
  std::uint64_t flow = 0;
  FlowKey key {};
  Fetch fetch {};
  std::uint8_t slot = 0; // of the module
  std::string_view why {};
};

// A module has found whether ACKs of a flow reach its server by the cellular link.
struct PathFound
{
  Address local {}; // that they come from
  Address server {};
  CellPath path {};
};

// A module has found whether the access point of a link kept frames in the last blackout.
struct FramesKept
{
  Link link = Link::wifi;
  bool kept = false;
};

struct Output
{
  std::vector<Injection> segments {};
  std::vector<ModuleRequest> requests {};
  std::vector<FetchRequest> fetches {};
  std::vector<PathFound> paths {};
  std::vector<FramesKept> kept {};
  std::vector<PaceRequest> paces {};

  bool empty() const
  {
    return segments.empty() && requests.empty() && fetches.empty() && paths.empty() && kept.empty() && paces.empty();
  }
  void clear()
  {
    segments.clear();
    requests.clear();
    fetches.clear();
    paths.clear();
    kept.clear();
    paces.clear();
  }
};

} // namespace tandem::chain
