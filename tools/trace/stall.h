// What is known of a stall, and of one flow's side at the laptop.
#pragma once

#include "tools/trace/effects.h"
#include "tools/trace/flow_book.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::trace_tool
{

enum class Cause : std::uint8_t
{
  radio_silent,   // nothing arrived of anything
  queue,          // sent in time, arrived late, while other packets arrived: it waited in the access point's queue
  server_idle,    // the server sent nothing: its application had nothing, or thought
  receive_window, // this laptop's window was full: its application did not read
  server_timeout, // a loss that only the server's retransmission timer repaired
  reordering,     // a segment came after those that were sent behind it: the last hop, mostly the own card
  tandem,         // Tandem withheld ACKs or window
  loss,           // a loss that took long to repair, but not by the timer
  unknown,        // what was recorded does not tell
};

constexpr std::size_t cause_count = static_cast<std::size_t>(Cause::unknown) + 1;

// For programs.
constexpr std::string_view name(Cause cause)
{
  constexpr std::array<std::string_view, cause_count> names { "radio_silent",   "queue",          "server_idle",
                                                              "receive_window", "server_timeout", "reordering",
                                                              "tandem",         "loss",           "unknown" };
  return names[static_cast<std::size_t>(cause)];
}

// For people.
constexpr std::string_view words(Cause cause)
{
  constexpr std::array<std::string_view, cause_count> all {
    "radio silent",  "queue at the access point", "server idle", "receive window", "the server's timeout", "reordering",
    "Tandem itself", "slow repair of a loss",     "unknown"
  };
  return all[static_cast<std::size_t>(cause)];
}

struct Stall
{
  std::int64_t begin_ns = 0, end_ns = 0; // since 1970
  std::uint64_t after_bytes = 0;         // of the download
  Cause cause = Cause::unknown;
  std::vector<std::string> evidence {}; // sentences
};

struct FlowStory
{
  BookedFlow flow {};
  std::int64_t first_ns = 0, last_ns = 0;
  std::uint64_t packets = 0;
  std::uint64_t bytes_in = 0;                                     // new payload that arrived
  std::uint64_t bytes_out = 0;                                    // payload that left
  std::uint64_t repeated = 0;                                     // arriving segments with nothing new
  std::int64_t rtt_ns = 0;                                        // the smallest seen; 0: none was
  bool timestamps = false;                                        // the server's say when it sent
  std::map<std::string, std::uint64_t, std::less<>> decisions {}; // of Tandem, by reason
  Effects effects {};
  std::vector<Stall> stalls {};
};

// Data that arrived.
struct Arrival
{
  std::int64_t at = 0;
  std::uint64_t seq = 0; // unwrapped
  std::uint32_t length = 0;
  std::uint32_t ts = 0;
  bool has_ts = false, push = false;
};

// What the server was told, and asked.
struct Departure
{
  std::int64_t at = 0;
  std::uint64_t own_ack = 0, own_edge = 0; // as the laptop's TCP said
  std::uint64_t ack = 0, edge = 0;         // as the server was told, up to this packet
  std::uint32_t length = 0;                // payload that leaves for the first time
};

// All of one flow, in the order of time.
struct StalledFlow
{
  FlowStory story {};
  std::vector<Arrival> in {};
  std::vector<Departure> out {};
  std::optional<std::uint64_t> base {}; // unwrapped value near the last one of the server's numbers
  std::optional<std::uint8_t> shift {}; // of this laptop's window; empty: unknown
  struct Syn
  {
    bool seen = false;
    std::optional<std::uint8_t> scale {}; // as offered
  };
  Syn own_syn {}, peer_syn {}; // whichever of them opened
  std::int64_t syn_ns = 0;
  std::map<std::uint32_t, std::int64_t> echoes {}; // TSval of this laptop -> when it left first
  std::uint64_t told_ack = 0, told_edge = 0;
  std::optional<Seq> sent {}; // behind the last byte that this laptop has sent
  // Tandem's own recording holds copies of some of the data. What arrived is then known by the laptop's ACKs.
  bool sampled = false;
  std::vector<Arrival> acknowledged {};    // as `in`, made of ACKs and SACK blocks; of such recordings alone
  std::uint64_t acked = 0, shown = 0;      // by the last ACK; the highest byte of a SACK block
  std::map<std::uint64_t, bool> pushes {}; // of copies: end -> PSH
};

} // namespace tandem::trace_tool
