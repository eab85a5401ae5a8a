// A one-way point-to-point link: a policer, a queue, a rate or a trace, an AQM, losses, and a delay that may reorder.
#pragma once

#include "tools/lab/medium/codel.h"
#include "tools/lab/medium/loss.h"
#include "tools/lab/medium/outbox.h"
#include "tools/lab/medium/random.h"
#include "tools/lab/medium/ring.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tandem::medium
{

// Delivery opportunities of a mahimahi trace: at each of these milliseconds 1500 bytes may leave; the list repeats
// after its last entry. (Netravali et al., "Mahimahi: accurate record-and-replay for HTTP", USENIX ATC 2015.)
struct Opportunities
{
  std::vector<std::uint32_t> milliseconds; // not decreasing, last one above 0
  static constexpr std::uint32_t bytes = 1500;

  std::uint32_t period() const { return milliseconds.back(); }
  Rate mean_rate() const { return { static_cast<double>(milliseconds.size()) * bytes * 8 * 1000 / period() }; }
};

struct Aqm
{
  enum class Kind : std::uint8_t
  {
    none,
    // A packet that has waited `threshold` when it leaves the queue is marked; one that is not ECN-capable is dropped
    // instead. Between `threshold` and `full` the probability rises linearly from 0 to 1; equal values make a step.
    mark,
    // RFC 8289: drops (never marks) ever more often while every packet of an interval has waited `threshold`, its
    // TARGET. INTERVAL is the RFC's 100 ms.
    codel,
  };

  Kind kind = Kind::none;
  Duration threshold {};
  Duration full {};
};

// Drops at once what comes above a rate, without a queue: a token bucket (RFC 2697's single rate, two colours), as
// operators enforce what was bought.
struct Policer
{
  Rate rate {};                // 0 = none
  std::uint64_t burst = 64000; // bytes that the bucket holds; full at the start
};

// Some packets take longer than those behind them, as over links that are bundled by packet.
struct Reordering
{
  double share = 0;  // probability of each packet
  Duration later {}; // on top of the link's delay
};

struct PipeConfig
{
  Rate rate {};                                  // 0 = as fast as packets come
  std::shared_ptr<const Opportunities> trace {}; // instead of a rate
  Duration delay {};                             // propagation, behind the queue
  Duration jitter {};                            // uniform in 0 .. jitter on top; never reorders
  Reordering reordering {};
  Policer policer {}; // before the queue
  std::uint32_t queue_packets = 1000;
  std::uint64_t queue_bytes = 0; // 0 = no limit in bytes
  LossSettings loss {};
  Aqm aqm {};
  bool shown = false; // reports a frame for each packet it sends, lost ones with a bad FCS (outbox.want_frames)
};

struct PipeStats
{
  std::uint64_t submitted = 0, submitted_bytes = 0;
  std::uint64_t delivered = 0, delivered_bytes = 0;
  std::uint64_t marked = 0;
  std::array<std::uint64_t, drop_reason_count> drops {};
  Duration busy {}; // time the link was sending (rate) or had something to send (trace)
};

// Time is handed in, as for Air: in order, and run_until(now) before submit(now) or a setter.
class Pipe
{
public:
  // Deliveries carry `from` and `to` as given here.
  Pipe(const PipeConfig& config, std::uint64_t seed, std::uint64_t stream, NodeId from, NodeId to, Outbox& outbox);

  void submit(Tick now, const Packet& packet);
  Tick next_event() const;
  void run_until(Tick now);

  // Live change. A packet that is being sent keeps the rate it began with; packets under way keep their delay.
  void configure(Tick now, const PipeConfig& config);
  // Down: with `hold` the queue fills and goes on afterwards, else everything queued and coming is dropped.
  void set_down(Tick now, bool down, bool hold);

  const PipeConfig& config() const { return config_; }
  const PipeStats& stats() const { return stats_; }
  std::size_t queued() const { return queue_.size(); }

private:
  struct Waiting
  {
    Packet packet {};
    Tick since {};
  };

  void start(Tick at);
  void complete(Tick at);
  Tick next_opportunity() const;
  void use_opportunity(Tick at);
  bool polices(std::uint32_t bytes, Tick at);
  bool leaves_queue(const Waiting& waiting, Tick at, bool& mark);
  void send(const Packet& packet, bool mark, Tick at);
  void drop(const Packet& packet, Tick at, DropReason why);
  void pop();

  PipeConfig config_;
  Outbox& outbox_;
  NodeId from_;
  NodeId to_;
  LossModel loss_;
  Random random_;
  Ring<Waiting> queue_;
  std::uint64_t queue_bytes_ = 0;
  Ring<Delivery> flights_;
  Ring<Delivery> late_flights_; // those that others overtake
  // Rate: the packet being sent has left the queue.
  bool sending_ = false;
  Waiting current_ {};
  bool current_mark_ = false;
  Tick done_ {};
  // Trace: position, and what the head of the queue has already been given.
  std::uint64_t opportunity_ = 0;
  std::uint32_t head_sent_ = 0;
  bool head_checked_ = false;
  bool head_mark_ = false;
  Tick last_release_ {};
  Tick last_late_release_ {};
  // The policer's bucket, and since when it holds that.
  double tokens_ = 0;
  Tick tokens_since_ {};
  Codel codel_ {};
  Tick now_ {};
  bool down_ = false;
  bool hold_ = false;
  PipeStats stats_ {};
};

} // namespace tandem::medium
