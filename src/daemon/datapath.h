// Bytes to segments and decisions to bytes: queued packets, observed copies, and injected segments. Each is counted,
// and written into the flight recorder. Decides nothing and calls nobody back: the caller asks the chain in between.
#pragma once

#include "src/chain/chain.h"
#include "src/kernel/packet/observer.h"
#include "src/kernel/packet/packet_queue.h"
#include "src/links/link_table.h"
#include "src/trace/recorder.h"
#include "src/wire/edit.h"
#include "src/wire/parse.h"

#include <tandem/link.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace tandem::daemon
{

class Datapath
{
public:
  // Sends a whole packet by the link. 0 or an errno.
  using Send = std::function<int(std::span<const std::byte> packet, Link by)>;

  struct Settings
  {
    std::optional<trace::Recorder::Limits> record {}; // nothing: no flight recorder
  };

  struct Counters
  {
    std::uint64_t queued = 0, passed = 0, edited = 0, rerouted = 0, dropped = 0, observed = 0;
    std::uint64_t injected = 0, inject_failed = 0;
    std::uint64_t reroute_failed = 0; // could not be sent by the cellular link, and left by Wi-Fi
    std::uint64_t cell_filtered = 0;  // of these and of the injected: refused by the packet filter or the routes
    std::uint64_t not_wifi = 0;       // queued, of a flow that Wi-Fi does not own
    std::uint64_t damaged = 0;        // copies with a wrong checksum
    std::array<std::uint64_t, wire::parse_fault_count> faults {};
    std::array<std::uint64_t, wire::edit_fault_count> edit_faults {};
  };

  // The table must outlive the datapath. Throws std::invalid_argument when the recorder's limits cannot be met.
  Datapath(const Settings& settings, const links::LinkTable& links, Send send);

  // A packet that waits for its verdict. Nothing: none of ours, it passes untouched.
  std::optional<Segment> queued(const kernel::QueuedPacket& packet);
  // What becomes of it, as the chain says. Edits the packet in place. What is to leave by the cellular link is sent
  // there as an injected segment is, and dropped in the queue. A mark would be cheaper, but the kernel goes on with the
  // output hooks as if the packet still left by Wi-Fi: no rule of the user's about the cellular interface would see it.
  struct Decided : kernel::Decision
  {
    bool unedited = false; // the edit was not possible: the packet leaves as it came
  };
  Decided decided(kernel::QueuedPacket& packet, const Segment& segment, const chain::Outcome& outcome);

  // A copy of a packet of the link's interface. Nothing: it belongs to no flow of the link, cannot be read, or TCP
  // will drop it for its checksum, as far as that can be told of a copy.
  std::optional<Segment> observed(Link by, const kernel::ObservedPacket& packet);
  // The chain was asked about this copy: its headers are recorded.
  void asked(const kernel::ObservedPacket& packet, const Segment& segment);

  // Builds and sends a segment of any kind but a fill. Returns the bytes that left; 0: not sent. `tunnelled`: the
  // flow's route leads into a tunnel. What is for the Wi-Fi link is sent by Link::other then, where this host's routes
  // lead it, and what is for the cellular link not at all.
  std::size_t inject(const chain::Injection& injection, Tick now, bool tunnelled = false);
  // The same for a fill, which is built and handed to the local TCP elsewhere: `packet` is what was handed over, empty
  // when it was not.
  std::size_t filled(const chain::Injection& injection, std::span<const std::byte> packet, Tick now);

  const Counters& counters() const { return counters_; }
  // Null without a flight recorder.
  trace::Recorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }

private:
  std::size_t injected(trace::Entry entry);
  void record(const trace::Entry& entry);
  bool send(std::span<const std::byte> packet, Link by);
  bool reroute(kernel::QueuedPacket& packet, const Segment& segment, bool sealed);

  const links::LinkTable& links_;
  Send send_;
  Counters counters_ {};
  std::optional<trace::Recorder> recorder_ {};
};

} // namespace tandem::daemon
