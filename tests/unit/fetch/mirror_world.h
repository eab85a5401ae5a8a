// A server and a cellular link in virtual time, for the tests of the mirror connection's TCP. The server keeps the
// rules that matter here as Linux does: it ignores acknowledgements of what it has not sent, with their windows; echoes
// the timestamp of the last acceptable segment; grows its window in slow start; sends no part of a segment into a small
// window; repairs by timeout; probes a closed window ever more seldom. What it sends can be known from the offset
// alone.
#pragma once

#include "src/fetch/mirror_tcp.h"
#include "src/wire/build.h"
#include "src/wire/parse.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::fetch::test
{

using Packet = std::vector<std::byte>;

inline std::byte content(std::uint64_t offset)
{
  return std::byte { static_cast<std::uint8_t>((offset * 2654435761u) >> 13) };
}

inline std::vector<std::byte> content(const Piece& piece)
{
  std::vector<std::byte> out;
  for (std::uint64_t at = piece.from; at < piece.to; ++at)
    out.push_back(content(at));
  return out;
}

struct WorldConfig
{
  Seq server_initial { 0x1000'0000 };
  Seq client_initial { 0x2000'0000 };
  bool timestamps = true;
  bool sack = true;
  std::uint64_t size = 30'000'000;        // of the stream
  std::uint64_t server_limit = 3'000'000; // of its window
  Duration one_way = 40ms;
  Rate rate = 30_mbps;
  std::size_t queue = 300; // packets
  bool reorder = false;
  MirrorConfig mirror {};
};

class World
{
public:
  static constexpr std::uint16_t mss = 1448;

  explicit World(WorldConfig config) : config_ { config }
  {
    config_.mirror.key.local.bytes[0] = 10;
    config_.mirror.key.remote.bytes[0] = 20;
    config_.mirror.key.local_port = 40000;
    config_.mirror.key.remote_port = 80;
    config_.mirror.initial_sequence = config_.client_initial;
    config_.mirror.initial_clock = { 0xffff'ff00 }; // wraps soon
    const std::string_view text = "GET / HTTP/1.1\r\n\r\n";
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    request_.assign(begin, begin + text.size());
    tcp.emplace(config_.mirror, request_);
  }

  // Drops a packet when it says true; counts from 0 in each direction.
  std::function<bool(std::size_t, const Segment&)> lose_up = [](std::size_t, const Segment&) { return false; };
  std::function<bool(std::size_t, const Segment&)> lose_down = lose_up;
  std::optional<MirrorTcp> tcp {};
  Tick now {};
  std::uint16_t offered = 500; // the server's window, unscaled

  // Facts about the run.
  std::uint64_t unsent_acks = 0; // acknowledgements of what had not been sent
  std::uint64_t queue_drops = 0;
  std::uint64_t delivered_bytes = 0; // by the link, payload
  std::uint64_t resets = 0;
  std::vector<Segment> from_client {}; // headers only
  std::uint64_t sent() const { return next_; }
  std::uint64_t window_edge() const { return edge_; }
  std::uint64_t acknowledged() const { return una_; }

  // The server sends no more than this beyond what is acknowledged from now on.
  void slow_down(std::uint64_t limit) { config_.server_limit = window_ = limit; }

  Seq server_seq(std::uint64_t offset) const { return config_.server_initial + 1 + static_cast<std::uint32_t>(offset); }
  const MirrorConfig& mirror() const { return config_.mirror; }

  void open()
  {
    tcp->open(now);
    pump();
  }

  bool run_until(const std::function<bool()>& done, Duration limit = 60s)
  {
    const Tick end = now + limit;
    while (!done())
    {
      Tick next = std::min(tcp->wake(), timeout_at_);
      if (!down_.empty()) next = std::min(next, down_.front().at);
      if (!up_.empty()) next = std::min(next, up_.front().at);
      if (next == Tick::max() || next > end)
      {
        now = end;
        return done();
      }
      // Time that stands still would be a busy loop on the fetch thread.
      if (next > now) standing_ = 0;
      if (++standing_ > 100000)
        throw std::logic_error { "time stands still while " + std::string { name(tcp->move()) } };
      now = std::max(now, next);
      if (!up_.empty() && up_.front().at <= now)
      {
        const Packet packet = std::move(up_.front().packet);
        up_.pop_front();
        serve(packet);
      }
      else if (!down_.empty() && down_.front().at <= now)
      {
        const Packet packet = std::move(down_.front().packet);
        down_.pop_front();
        hand(packet);
      }
      else if (timeout_at_ <= now)
        expire();
      else
        tcp->tick(now);
      pump();
    }
    return true;
  }

  bool fetch(const Piece& piece, Duration limit = 60s)
  {
    if (!tcp->want(piece, now)) return false;
    pump();
    const bool got = run_until([&] { return tcp->holds(piece) || tcp->phase() == MirrorPhase::closed; }, limit);
    const bool right = got && tcp->holds(piece) && tcp->read(piece) == content(piece);
    tcp->unwant(piece, now);
    pump();
    return right;
  }

  // A packet of the server made by hand, at once.
  Packet injected(std::uint16_t flags, Seq seq, std::span<const std::byte> payload = {}, std::optional<Seq> ack = {},
                  std::optional<TsClock> clock = {}) const
  {
    Packet packet(wire::longest_header + payload.size());
    wire::Headers headers { .key = config_.mirror.key,
                            .direction = Direction::ingress,
                            .seq = seq,
                            .ack =
                                ack.value_or(config_.client_initial + 1 + static_cast<std::uint32_t>(request_.size())),
                            .flags = flags,
                            .window = offered };
    if (config_.timestamps && (flags & tcp_flag::rst) == 0)
      headers.timestamps = Timestamps { .value = clock.value_or(server_clock()), .echo = recent_ };
    packet.resize(wire::build_segment(packet, headers, payload));
    return packet;
  }

  void hand(const Packet& packet)
  {
    const wire::Parsed parsed = wire::parse(packet, Direction::ingress);
    delivered_bytes += parsed.segment.payload_length;
    tcp->arrive(parsed.segment, now);
  }

  // What the client has sent since the last call, parsed; it goes on its way all the same.
  std::vector<Segment> said()
  {
    pump();
    const std::vector<Segment> out { from_client.begin() + static_cast<std::ptrdiff_t>(heard_), from_client.end() };
    heard_ = from_client.size();
    return out;
  }

private:
  struct Waiting
  {
    Tick at {};
    Packet packet {};
  };

  TsClock server_clock() const { return { static_cast<std::uint32_t>(now.time_since_epoch() / 1ms) + 0xffff'fff0u }; }

  void pump()
  {
    for (Packet& packet : tcp->take_packets())
    {
      const wire::Parsed parsed = wire::parse(packet, Direction::egress);
      from_client.push_back(parsed.segment);
      from_client.back().bytes = {};
      if (!lose_up(up_count_++, parsed.segment)) up_.push_back({ now + config_.one_way, std::move(packet) });
    }
  }

  void put(Packet packet)
  {
    const wire::Parsed parsed = wire::parse(packet, Direction::ingress);
    if (lose_down(down_count_++, parsed.segment)) return;
    const Duration line = config_.rate.time_for(packet.size());
    const auto waiting = free_at_ > now ? static_cast<std::size_t>((free_at_ - now) / line) : 0;
    if (waiting >= config_.queue)
    {
      ++queue_drops;
      return;
    }
    free_at_ = std::max(free_at_, now) + line;
    down_.push_back({ free_at_ + config_.one_way, std::move(packet) });
    if (config_.reorder && down_count_ % 7 == 0 && down_.size() >= 2)
      std::swap(down_[down_.size() - 1].packet, down_[down_.size() - 2].packet);
  }

  void serve(const Packet& packet)
  {
    const wire::Parsed parsed = wire::parse(packet, Direction::egress);
    const Segment& segment = parsed.segment;
    if (segment.has(tcp_flag::rst))
    {
      ++resets;
      timeout_at_ = Tick::max();
      return;
    }
    if (segment.has(tcp_flag::syn))
    {
      recent_ = segment.timestamps ? segment.timestamps->value : TsClock {};
      Packet answer = injected(tcp_flag::syn | tcp_flag::ack, config_.server_initial, {}, config_.client_initial + 1);
      // The SYN's options that build_segment does not write: window scale and SACK permitted are added by parsing.
      answer = with_options(answer);
      put(std::move(answer));
      return;
    }
    const bool fresh = segment.payload_length != 0;
    if (fresh) requested_ = true;
    const std::int64_t ack = static_cast<std::int64_t>(una_) + (segment.ack - server_seq(una_));
    if (ack > static_cast<std::int64_t>(next_))
    {
      ++unsent_acks;
      return;
    }
    if (ack < static_cast<std::int64_t>(una_)) return;
    if (segment.timestamps) recent_ = segment.timestamps->value;
    const auto advance = static_cast<std::uint64_t>(ack) - una_;
    una_ = static_cast<std::uint64_t>(ack);
    window_ = std::min<std::uint64_t>(window_ + advance, config_.server_limit);
    edge_ = una_ + (std::uint64_t { segment.window } << (scaled_ ? 7 : 0));
    if (advance == 0 && una_ < next_ && segment.payload_length == 0)
      ++duplicates_;
    else
      duplicates_ = 0;
    if (duplicates_ == 3) repair();
    timeout_at_ = una_ < next_ ? now + timeout_ : Tick::max();
    send();
  }

  void send()
  {
    if (!requested_) return;
    while (next_ < config_.size && next_ < una_ + window_)
    {
      const std::uint64_t length = std::min<std::uint64_t>(mss, config_.size - next_);
      if (next_ + length > edge_)
      {
        // Nothing under way and no room for a segment: a probe.
        if (una_ == next_) timeout_at_ = now + probe_after_;
        break;
      }
      send_range(next_, length);
      next_ += length;
      timeout_at_ = now + timeout_;
      probe_after_ = timeout_;
    }
  }

  void send_range(std::uint64_t from, std::uint64_t length)
  {
    const auto payload = content({ from, from + length });
    put(injected(tcp_flag::ack, server_seq(from), payload));
  }

  void repair()
  {
    send_range(una_, std::min<std::uint64_t>({ mss, next_ - una_ }));
    window_ = std::max<std::uint64_t>(window_ / 2, 10 * mss);
  }

  void expire()
  {
    timeout_at_ = now + 2 * timeout_;
    if (una_ < next_)
    {
      duplicates_ = 0;
      window_ = 10 * mss;
      send_range(una_, std::min<std::uint64_t>({ mss, next_ - una_ }));
    }
    else
    {
      // A window probe. The next one waits twice as long, whether or not this one is answered (Linux: TCP_RTO_MAX).
      put(injected(tcp_flag::ack, server_seq(una_) - 1));
      probe_after_ = std::min<Duration>(2 * probe_after_, 120s);
      timeout_at_ = now + probe_after_;
    }
  }

  Packet with_options(const Packet& plain)
  {
    scaled_ = true;
    // NOP, window scale 7; NOP, NOP, SACK permitted, in front of what is there.
    const std::size_t ip = 20;
    const std::size_t header = std::size_t { 4 } * (std::to_integer<unsigned>(plain[ip + 12]) >> 4);
    Packet out { plain.begin(), plain.begin() + 40 };
    for (int b : { 1, 3, 3, 7, 1, 1, config_.sack ? 4 : 1, config_.sack ? 2 : 1 })
      out.push_back(static_cast<std::byte>(b));
    out.insert(out.end(), plain.begin() + 40, plain.end());
    out[ip + 12] = static_cast<std::byte>((header / 4 + 2) << 4);
    out[3] = static_cast<std::byte>(out.size());
    const wire::Parsed parsed = wire::parse(out, Direction::ingress);
    wire::seal(out, parsed.segment);
    return out;
  }

  WorldConfig config_;
  std::vector<std::byte> request_ {};
  std::deque<Waiting> up_ {}, down_ {};
  std::size_t up_count_ = 0, down_count_ = 0, heard_ = 0;
  Tick free_at_ {};

  bool requested_ = false, scaled_ = false;
  std::uint64_t una_ = 0, next_ = 0, edge_ = 65535, window_ = 10 * mss;
  TsClock recent_ {};
  unsigned duplicates_ = 0;
  std::size_t standing_ = 0;
  Duration timeout_ = 300ms;
  Duration probe_after_ = timeout_;
  Tick timeout_at_ = Tick::max();
};

} // namespace tandem::fetch::test
