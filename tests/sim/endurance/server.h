// The sending end of a kept connection, as far as Linux's matters to whoever sees its packets: SACK, timestamps with
// PAWS, slow start after idleness, a timer that backs off. Its clock may part from the client's.
#pragma once

#include "tests/golden/harness/fixture.h"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace tandem::test::days
{

struct Range
{
  std::uint64_t left = 0, right = 0;
};

// Offsets in the stream do not wrap.
struct Packet
{
  std::uint64_t seq = 0; // data
  std::uint32_t length = 0;
  std::uint64_t ack = 0;
  std::uint32_t window = 0; // bytes
  TsClock value {}, echo {};
  std::array<Range, 3> sacks {};
  std::uint8_t sack_count = 0;
};

class Server
{
public:
  // `ppm`: by how much its clock is faster than the time handed in.
  explicit Server(double ppm) : ppm_ { ppm } {}

  void write(std::uint64_t bytes) { written_ += bytes; }
  // An ACK; the client's data has the number `asked` behind its last byte.
  void hear(const Packet& ack, std::uint64_t asked, Tick now);
  void tick(Tick now);
  // When to call tick() at the latest.
  Tick due() const { return due_; }
  // What it sends now, if anything: to be called until there is nothing.
  std::optional<Packet> send(Tick now);

  TsClock clock(Tick now) const;
  bool settled() const { return una_ == written_; }
  std::uint64_t written() const { return written_; }
  std::uint64_t una() const { return una_; }
  std::uint64_t asked() const { return asked_; }
  std::uint64_t timeouts() const { return timeouts_; }
  std::uint64_t rejected() const { return rejected_; }
  bool told_too_much() const { return told_too_much_; } // an ACK of what was never sent

private:
  struct Out
  {
    std::uint64_t seq = 0;
    std::uint32_t length = 0;
    bool sacked = false, lost = false;
    std::uint8_t again = 0; // a retransmission is under way
  };

  void take_sacks(const Packet& ack);
  void rearm(Tick now);
  Packet data(std::uint64_t seq, std::uint32_t length, Tick now);

  double ppm_;
  std::uint64_t written_ = 0, una_ = 0, nxt_ = 0, asked_ = 0;
  std::uint64_t highest_sacked_ = 0, recover_ = 0;
  std::uint64_t timeouts_ = 0, rejected_ = 0;
  std::deque<Out> out_ {};
  std::uint64_t in_flight_ = 0;
  double cwnd_ = 14'480, ssthresh_ = 1e12;
  std::uint32_t window_ = 64'000;
  Duration srtt_ {};
  Duration rto_ = std::chrono::seconds { 1 };
  Tick sent_at_ {}, due_ = Tick::max();
  TsClock recent_ {};
  bool heard_ = false, recovering_ = false, probe_ = false, told_too_much_ = false;
  bool at_once_ = false; // the first retransmission of an episode waits for no room (RFC 6675 section 5)
};

} // namespace tandem::test::days
