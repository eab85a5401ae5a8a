// Flows of a recording: which packet belongs to which, numbered as they appear, and which end of each is this laptop.
#pragma once

#include "src/trace/recorded.h"
#include "src/wire/parse.h"

#include <tandem/segment.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tandem::trace_tool
{

// How it is known which end of a flow is the laptop.
enum class Side : std::uint8_t
{
  recorded,  // the file says which way packets went
  told,      // by the user
  handshake, // it sent the SYN: Tandem is made for who opens connections
  guessed,   // no handshake in the file: by kind of address, then by port
};

constexpr std::string_view name(Side side)
{
  switch (side)
  {
  case Side::recorded:
    return "recorded";
  case Side::told:
    return "told";
  case Side::handshake:
    return "handshake";
  case Side::guessed:
    return "guessed";
  }
  return "?";
}

struct BookedFlow
{
  std::size_t number = 0; // from 1, in the order of their first packets
  FlowKey key {};
  Side side = Side::guessed;
  bool syn = false;     // the SYN is in the file
  Seq isn {};           // of it
  bool syn_ack = false; // the SYN-ACK is
  bool handshake() const { return syn && syn_ack; }
};

class FlowBook
{
public:
  // `locals`: addresses that the user says are the laptop's.
  explicit FlowBook(std::vector<Address> locals = {}) : locals_ { std::move(locals) } {}
  FlowBook(const FlowBook&) = delete;
  FlowBook& operator=(const FlowBook&) = delete;

  struct Found
  {
    BookedFlow* flow = nullptr;
    wire::Parsed parsed {}; // seen from the laptop
  };
  // Reads the packet, makes its flow known when it is new. `flow` is null when the packet is no segment. Valid until
  // the next call.
  Found take(const trace::Recorded& packet);

  // The latest one of this key; null when no packet of it was seen.
  const BookedFlow* find(const FlowKey& key) const;

  const std::vector<BookedFlow>& flows() const { return flows_; }

private:
  struct Hash
  {
    std::size_t operator()(const FlowKey& key) const noexcept;
  };
  // Both ways round: by the source as `local`.
  struct Place
  {
    std::size_t index = 0;
    Direction direction = Direction::egress;
  };
  const Place& place_of(const Segment& as_egress, std::optional<Direction> recorded);
  const Place& add(const Segment& as_egress, std::optional<Direction> recorded);
  Side side_of(const Segment& as_egress, std::optional<Direction> recorded, bool& local_is_source) const;

  std::vector<Address> locals_;
  std::vector<BookedFlow> flows_ {};
  using Places = std::unordered_map<FlowKey, Place, Hash>;
  Places places_ {};
  // Of the latest packet of either direction: they come in trains.
  std::array<Places::const_pointer, 2> latest_ {};
};

} // namespace tandem::trace_tool
