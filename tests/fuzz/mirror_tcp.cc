// Any packets as a server's end of a mirror connection, at any times, while pieces are wanted and given up: what the
// client's end sends is well-formed, acknowledges nothing beyond what may have been sent, and time goes on.
// Input: options (1 byte), then records: kind, three bytes, and for packets a payload length; see below.
#include "src/fetch/mirror_tcp.h"

#include "src/wire/parse.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace tandem;
using tandem::fuzz::check;

namespace
{

constexpr Seq server_initial { 0xffff'f000 }; // wraps soon
constexpr Seq client_initial { 0x2000'0000 };
constexpr std::uint64_t longest = 1 << 22;

class Run
{
public:
  explicit Run(std::uint8_t options)
  {
    config_.key.local.bytes[0] = 10;
    config_.key.remote.bytes[0] = 20;
    config_.key.local_port = 40000;
    config_.key.remote_port = 80;
    config_.initial_sequence = client_initial;
    config_.initial_clock = { 0xffff'ff00 };
    config_.optimistic = (options & 1) != 0;
    config_.early_guard = (options & 2) != 0;
    timestamps_ = (options & 4) != 0;
    sack_ = (options & 8) != 0;
    scale_ = (options & 16) != 0;
    tcp_.emplace(config_, std::vector<std::byte>(200, std::byte { 'x' }));
    tcp_->open(now_);
    sent();
  }

  void take(std::span<const std::uint8_t, 6> record)
  {
    const std::uint32_t number = record[1] | record[2] << 8 | record[3] << 16;
    const std::uint64_t at = std::uint64_t { number } % longest;
    const std::uint64_t length = 1 + (record[4] | record[5] << 8) % 4000;
    switch (record[0] % 8)
    {
    case 0:
      return arrive({}, tcp_flag::syn | tcp_flag::ack, 0, number);
    case 1: // where the server would go on
    case 2:
      return arrive(next_, tcp_flag::ack, length, number);
    case 3: // anywhere
      return arrive(1 + at, static_cast<std::uint16_t>(record[0] >> 3 | record[5] << 5), length, number);
    case 4:
      tcp_->want({ at, at + length }, now_);
      return after();
    case 5:
      tcp_->unwant({ at, at + length }, now_);
      return after();
    case 6:
      now_ += std::chrono::microseconds { number };
      tcp_->tick(now_);
      return after();
    default:
      return wait();
    }
  }

private:
  void arrive(std::uint64_t offset, std::uint16_t flags, std::uint64_t length, std::uint32_t number)
  {
    Segment s {};
    s.direction = Direction::ingress;
    s.key = config_.key;
    s.flags = flags;
    s.seq = server_initial + static_cast<std::uint32_t>(offset);
    s.ack = client_initial + ((number & 0x80) != 0 ? 1 + number % 400 : 201);
    s.window = static_cast<std::uint16_t>(number >> 4 | 0x100);
    if ((flags & tcp_flag::syn) != 0)
    {
      s.ack = client_initial + ((number & 1) != 0 ? 0 : 1);
      s.mss = static_cast<std::uint16_t>(number >> 1);
      s.options = option::mss | (sack_ ? option::sack_permitted : 0);
      if (scale_) s.window_scale = static_cast<std::uint8_t>(number % 15), s.options |= option::window_scale;
      next_ = 1;
    }
    if (timestamps_)
    {
      s.options |= option::timestamps;
      s.timestamps = { .value = { static_cast<std::uint32_t>(now_.time_since_epoch().count() / 1'000'000) },
                       .echo = echo_ };
      if ((number & 0x40) != 0) s.timestamps->value.raw ^= number << 8;
    }
    if ((flags & tcp_flag::syn) != 0) length = 0;
    const std::vector<std::byte> bytes(length, std::byte { 7 });
    s.payload_length = static_cast<std::uint32_t>(length);
    s.bytes = bytes;
    if (offset == next_) next_ = std::min(next_ + length, longest);
    tcp_->arrive(s, now_);
    after();
  }

  void wait()
  {
    const Tick wake = tcp_->wake();
    if (wake == Tick::max()) return;
    standing_ = wake > now_ ? 0 : standing_ + 1;
    check(standing_ < 5000, "time goes on");
    now_ = std::max(now_, wake);
    tcp_->tick(now_);
    after();
  }

  void after()
  {
    sent();
    check(tcp_->position() <= 2 * longest + 8'000'000'000ULL, "a position that can be meant");
    check((tcp_->phase() == fetch::MirrorPhase::closed) != tcp_->why().empty(), "closed for a reason");
  }

  void sent()
  {
    for (const std::vector<std::byte>& packet : tcp_->take_packets())
    {
      const wire::Parsed parsed = wire::parse(packet, Direction::egress);
      check(parsed.ok(), "what is sent is a segment");
      const Segment& s = parsed.segment;
      check(s.key == config_.key, "of this connection");
      check(s.payload_length <= 1460, "no longer than the link's MTU leaves");
      check((s.flags & (tcp_flag::syn | tcp_flag::rst)) != 0 || (s.flags & tcp_flag::ack) != 0, "an ACK");
      if (s.timestamps) echo_ = s.timestamps->value;
      check(s.sack_count <= 4, "as many blocks as fit");
    }
  }

  fetch::MirrorConfig config_ {};
  std::optional<fetch::MirrorTcp> tcp_ {};
  Tick now_ { std::chrono::seconds { 1 } };
  std::uint64_t next_ = 1; // in the server's numbers
  TsClock echo_ {};
  bool timestamps_ = false, sack_ = false, scale_ = false;
  unsigned standing_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 1 || size > 6 * 400) return 0;
  Run run { data[0] };
  for (std::size_t at = 1; at + 6 <= size; at += 6)
    run.take(std::span<const std::uint8_t, 6> { data + at, 6 });
  return 0;
}
