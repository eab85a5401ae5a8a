// What goes into the medium and what comes out of it.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::medium
{

using Handle = std::uint32_t; // the caller's name for a packet; the medium never looks behind it
using NodeId = std::uint16_t; // a station, an access point, or one end of a pipe

constexpr Handle virtual_packet = 0xffffffff; // background traffic: takes air, never delivered to anyone
constexpr NodeId nobody = 0xffff;             // receiver of group-addressed frames

// One packet handed to the medium. `bytes` is the network-layer length (IP header on); link headers are the medium's
// business.
struct Packet
{
  Handle handle = virtual_packet;
  std::uint32_t bytes = 0;
  bool airless = false; // oracle: uses no air time and never contends (the limit that ACK offloading can reach at best)
  bool group = false;   // broadcast or multicast: sent once at a basic rate, not acknowledged
  bool ect = false;     // ECN-capable transport: an AQM may mark instead of drop
};

struct Delivery
{
  Handle handle = 0;
  NodeId from = 0;
  NodeId to = 0;
  Tick at {};
  bool mark = false; // set Congestion Experienced in the IP header (RFC 3168)
  // Marked by a pipe: what waited in its queue when the mark was decided.
  std::uint32_t queued = 0;
  std::uint64_t queued_bytes = 0;
};

enum class DropReason : std::uint8_t
{
  queue_full,     // drop-tail
  retry_limit,    // every transmission attempt failed
  loss,           // random or bursty loss
  blackout,       // the link is down and drops
  not_associated, // no such station at this access point (any more)
  aqm,            // the AQM dropped it, or wanted to mark it and it is not ECN-capable
  policed,        // above what the policer lets through
};
constexpr std::size_t drop_reason_count = 7;

constexpr std::string_view name(DropReason reason)
{
  constexpr std::string_view names[] = { "queue_full",     "retry_limit", "loss",   "blackout",
                                         "not_associated", "aqm",         "policed" };
  return names[static_cast<std::size_t>(reason)];
}

struct Drop
{
  Handle handle = 0;
  NodeId from = 0;
  Tick at {};
  DropReason why = DropReason::queue_full;
  std::uint32_t queued = 0;       // packets that waited in the sender's queue at that moment, this one not counted
  std::uint64_t queued_bytes = 0; // of a pipe; 0 on the air
};

enum class FrameType : std::uint8_t
{
  data,
  null, // no payload: power-save signalling
  ack,
  block_ack,
  beacon,
};

// One frame on the air, as a monitor interface at the observing station gets it, plus the truth behind it.
struct FrameReport
{
  Tick start {}; // first bit of the preamble
  Duration duration {};
  NodeId transmitter = nobody;
  NodeId receiver = nobody;
  FrameType type = FrameType::data;
  std::uint8_t channel = 0;
  std::uint8_t mcs = 0;    // HT MCS index when `ht`, else the position in the standard's rate list
  bool ht = false;         // HT frame: MCS and guard interval instead of a legacy rate
  bool retry = false;      // the Retry bit of the MAC header
  bool bad_fcs = false;    // the observer got it with a wrong check sequence
  bool collision = false;  // it overlapped another frame
  bool failed = false;     // the intended receiver did not get it (not visible to a real monitor)
  bool heard = true;       // strong enough to be noticed by the observer at all
  bool aggregated = false; // part of an A-MPDU
  bool last_of_aggregate = false;
  std::uint16_t sequence = 0;     // 12 bits
  std::uint16_t signal_valid = 0; // 0 for the observer's own frames, which have no received signal
  std::uint32_t aggregate = 0;    // number of the A-MPDU
  std::uint32_t bytes = 0;        // MPDU length with header and FCS
  double mbps = 0;
  float signal_dbm = 0;
};

// Filled by run_until() and submit() in order of time; the caller empties it. Vectors keep their capacity.
struct Outbox
{
  std::vector<Delivery> deliveries;
  std::vector<Drop> drops;
  std::vector<FrameReport> frames;
  bool want_frames = false; // reports are only made when somebody reads them

  void clear()
  {
    deliveries.clear();
    drops.clear();
    frames.clear();
  }
};

} // namespace tandem::medium
