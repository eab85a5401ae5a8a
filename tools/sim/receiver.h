// One subflow's receiving end, at the client: acknowledgements as Linux makes them.
#pragma once

#include "tools/sim/packet.h"

#include <array>
#include <cstdint>
#include <map>

namespace tandem::sim
{

// What has arrived of a sequence of segments.
class Arrived
{
public:
  // Whether it is new.
  bool add(std::uint64_t seq);
  std::uint64_t next() const { return next_; } // all before it is here
  bool holes() const { return !beyond_.empty(); }
  // The block that holds `seq`, beyond next(); empty when there is none.
  Block block(std::uint64_t seq) const;

private:
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::uint64_t> beyond_; // from -> to, apart from each other
};

// Who wants the data, and knows how much room there is for it.
class Sink
{
public:
  virtual ~Sink() = default;
  // A segment that this subflow had not had. Returns the next of the connection that is missing.
  virtual void received(std::uint64_t dsn, std::uint32_t length) = 0;
  virtual std::uint64_t data_ack() const = 0;
  virtual std::uint64_t room() const = 0; // bytes beyond data_ack
};

struct ReceiverConfig
{
  unsigned delayed = 2;                              // segments for one acknowledgement, RFC 5681 4.2
  Duration delay = std::chrono::milliseconds { 40 }; // and the longest wait for it: Linux's least
  unsigned quick = 16;                               // segments that are acknowledged at once at the start: Linux
  bool sack = true;
  std::uint32_t option_bytes = 0; // of MPTCP in every acknowledgement
};

class Receiver final : public Stage
{
public:
  struct Stats
  {
    std::uint64_t segments = 0, duplicates = 0, bytes = 0; // bytes: payload, once
    std::uint64_t acks = 0;
    std::uint64_t marked = 0; // segments with CE
  };

  Receiver(World& world, const ReceiverConfig& config, Sink& sink, const Route& route);
  // Begins the handshake; asks again every second until it is answered.
  void connect();
  void accept(Handle handle) override;

  const Stats& stats() const { return stats_; }
  // Smoothed round-trip time as a client sees it: from a TSval that left to its echo.
  Duration rtt() const { return rtt_; }
  Duration rtt_min() const { return rtt_min_; }
  bool connected() const { return connected_; }
  std::uint16_t interface = 0;

private:
  void acknowledge();
  void send(Kind kind);

  World& world_;
  ReceiverConfig config_;
  Sink& sink_;
  const Route& route_;
  Stats stats_ {};
  Arrived arrived_;
  std::array<std::uint64_t, 4> recent_ {}; // a segment of each of the newest blocks, newest first
  unsigned recent_count_ = 0;
  bool connected_ = false;
  bool ece_ = false;
  unsigned pending_ = 0, quick_;
  std::uint64_t last_ack_ = 0;
  std::uint32_t ts_recent_ = 0;
  // A TSval that is being timed.
  std::uint32_t timed_ = 0;
  Tick timed_at_ {};
  Duration rtt_ {}, rtt_min_ {};
  Timer delayed_;
  Timer syn_;
};

} // namespace tandem::sim
