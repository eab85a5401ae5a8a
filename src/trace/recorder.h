// The flight recorder: the last seconds of packets with what was done to them and why, in memory that is reserved at
// start-up.
#pragma once

#include <tandem/link.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::trace
{

// What became of a packet.
enum class Disposition : std::uint8_t
{
  passed,   // byte for byte
  edited,   // sent on with changed bytes, or by another link
  dropped,  // thinned
  injected, // made by a module; there is no packet before it
  fault,    // not a segment that could be read; passed untouched, `why` names the fault
  observed, // a copy, made while the packet itself went its way; its headers
};

// The reason of a fault: it was to leave by the cellular link, could not be sent there, and passed untouched.
constexpr std::string_view not_rerouted = "not sent by the cellular link";

constexpr std::size_t disposition_count = static_cast<std::size_t>(Disposition::observed) + 1;

constexpr std::string_view name(Disposition disposition)
{
  switch (disposition)
  {
  case Disposition::passed:
    return "passed";
  case Disposition::edited:
    return "edited";
  case Disposition::dropped:
    return "dropped";
  case Disposition::injected:
    return "injected";
  case Disposition::fault:
    return "fault";
  case Disposition::observed:
    return "observed";
  }
  return "?";
}

// How a packet entered the chain; with it the chain can be asked again (src/trace/chain_input.h).
struct Asked
{
  Tick at {};                      // the chain's time
  Tick received {};                // Segment::received
  std::uint32_t seen = 0;          // bytes of the packet that the chain saw
  bool checksum_not_ready = false; // when it was edited

  bool operator==(const Asked&) const = default;
};

// One packet, or an input of the chain that is none. Spans and views are copied by the recorder, and valid only during
// the visit when it hands them out.
struct Entry
{
  Tick at {};
  Direction direction = Direction::egress;
  Link link =
      Link::wifi; // the link it arrives on, or was about to leave by; of an injected packet the one it leaves by
  Link after_link = Link::wifi; // the link an edited packet leaves by; not looked at for another disposition
  Disposition disposition = Disposition::passed;
  std::span<const std::byte> before {}; // from the IP header on; empty for an injected packet
  std::span<const std::byte> after {};  // of an edited or injected packet; empty when an edit only changed the link
  std::uint32_t before_length = 0;      // length on the wire when `before` is already cut; 0: its size
  std::uint32_t after_length = 0;       // likewise
  std::string_view why {};              // at most longest_why bytes are kept
  std::optional<Asked> asked {};        // the chain was asked about the packet; its `at` is that of the entry
  std::span<const std::byte> input {};  // an encoded ChainInput: then of all others only `at` counts
};

constexpr std::size_t longest_why = 200;

// Keeps entries until they are `keep` old or the memory is needed for younger ones. Not synchronised: one thread owns
// it. To write it out elsewhere, copy it (one allocation, one memcpy) and hand the copy over.
class Recorder
{
public:
  struct Limits
  {
    Duration keep = std::chrono::seconds { 30 };
    std::size_t bytes = std::size_t { 4 } << 20; // for entries with their packets
    std::uint32_t snap = 256; // bytes kept of a packet; 256 holds every IP and TCP header met in practice
  };

  struct Counters
  {
    std::uint64_t recorded = 0;
    std::uint64_t expired = 0;     // forgotten because of their age
    std::uint64_t overwritten = 0; // forgotten early, for want of memory
  };

  // Reserves the memory. Throws std::invalid_argument when `bytes` cannot hold the largest possible entry, or a limit
  // is not positive.
  explicit Recorder(const Limits& limits);

  // Allocates nothing. Entries come in the order of time.
  void add(const Entry& entry) noexcept;

  // Forgets what is older than `keep` at `now`.
  void expire(Tick now) noexcept;

  void clear() noexcept;

  // Oldest first.
  void visit(const std::function<void(const Entry&)>& visitor) const;

  std::size_t size() const { return count_; }
  // Packets that were kept and are not any more: the oldest one that is has the next number.
  std::uint64_t forgotten() const { return forgotten_; }
  // Likewise of all entries, inputs of the chain included.
  std::uint64_t entries_forgotten() const { return entries_forgotten_; }
  const Counters& counters() const { return counters_; }
  const Limits& limits() const { return limits_; }

private:
  void add_input(Tick at, std::span<const std::byte> input) noexcept;
  std::size_t place(std::size_t size) noexcept;
  void forget_oldest() noexcept;

  Limits limits_;
  std::vector<std::byte> memory_;
  // Entries lie one behind the other from tail_ to head_; when wrapped_, from tail_ to end_ and from 0 to head_.
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::size_t end_ = 0;
  bool wrapped_ = false;
  std::size_t count_ = 0;
  std::uint64_t forgotten_ = 0;
  std::uint64_t entries_forgotten_ = 0;
  Counters counters_ {};
};

} // namespace tandem::trace
