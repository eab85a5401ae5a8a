// One subflow's sending end: what a Linux server does with its window, its retransmissions and its timers.
#pragma once

#include "tools/lab/medium/ring.h"
#include "tools/sim/congestion.h"
#include "tools/sim/packet.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tandem::sim
{

class Sender;

struct Chunk
{
  std::uint64_t dsn = 0;
  std::uint32_t length = 0; // bytes
};

// Where the data comes from.
class Source
{
public:
  virtual ~Source() = default;
  // The next segment for this subflow, or nothing now. Sender::push() when there is something again.
  virtual std::optional<Chunk> next(Sender& sender) = 0;
  // What an acknowledgement told of the connection.
  virtual void acknowledged(Sender& sender, std::uint64_t data_ack, std::uint64_t window) = 0;
  // After a timeout: these segments of the connection were sent by this subflow and are missing.
  virtual void stalled(Sender&, std::span<const std::uint64_t>) {}
};

enum class Repair : std::uint8_t
{
  rack, // SACK (RFC 6675) with time-based detection (RFC 8985) and a tail loss probe: Linux's default
  sack, // SACK, three segments above (RFC 6675), and what was sent before a delivered retransmission
  reno, // no SACK: three duplicate acknowledgements, partial acknowledgements (RFC 6582)
};

struct SenderConfig
{
  Algorithm algorithm = Algorithm::cubic;
  Repair repair = Repair::rack;
  bool ecn = false;           // RFC 3168
  std::uint32_t mss = 1448;   // payload bytes
  std::uint32_t header = 52;  // IPv4, TCP, timestamps; 72 with MPTCP's DSS
  double initial_window = 10; // RFC 6928
  Duration rto_min = std::chrono::milliseconds { 200 };
  Duration rto_max = std::chrono::seconds { 120 };
  bool undo = true;       // by timestamps (RFC 3522 and Linux): a reduction that was not needed
  bool own_window = true; // the receiver's window bounds this subflow; MPTCP has one for the connection
};

class Sender final : public Stage
{
public:
  struct Stats
  {
    std::uint64_t segments = 0; // sent, retransmissions included
    std::uint64_t retransmissions = 0;
    std::uint64_t duplicates = 0; // acknowledgements of nothing new while something is under way
    std::uint64_t recoveries = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t probes = 0;
    std::uint64_t ecn_reductions = 0;
    std::uint64_t undone = 0;
    std::uint64_t paws = 0; // acknowledgements older than one before
  };
  enum class State : std::uint8_t
  {
    open,
    reducing, // after ECE ("CWR")
    recovery,
    loss, // after a timeout
  };

  // Packets leave by `route`. `group` gets this window, for coupled controls.
  Sender(World& world, const SenderConfig& config, Source& source, const Route& route, Group& group);

  void accept(Handle handle) override; // acknowledgements
  // There may be something to send.
  void push();

  // What a cross-layer assistant does to the sender (Sinky et al., algorithms 1 to 3): sets the window, forgets what
  // was measured of the path, takes no duplicate acknowledgement for a loss meanwhile.
  void set_cwnd(double segments);
  void reset_estimates();
  void ignore_losses(Duration time) { ignore_until_ = world_.now() + time; }
  // The subflow ends (its address is taken away): nothing is sent or heard any more. Returns the data that it had under
  // way.
  std::vector<std::uint64_t> close();
  // No more than so many segments in flight, whatever the window says. 0: nothing new.
  void limit(double segments);

  const Window& window() const { return window_; }
  const Stats& stats() const { return stats_; }
  const SenderConfig& config() const { return config_; }
  State state() const { return state_; }
  // Segments on their way, as RFC 6675's pipe.
  std::uint64_t in_flight() const { return waiting() - sacked_ - lost_ + again_; }
  std::uint64_t waiting() const { return window_.sent - window_.acked; }
  Duration rto() const { return rto_; }
  std::uint16_t interface = 0; // of the client, copied to packets

private:
  struct Out
  {
    Tick sent {};
    std::uint64_t order = 0; // of transmissions
    std::uint64_t dsn = 0;
    std::uint32_t length = 0;
    std::uint16_t times = 0;
    bool sacked = false, lost = false, again = false; // again: a retransmission is under way
  };

  Out& out(std::uint64_t seq) { return outs_[seq - window_.acked]; }
  unsigned take_cumulative(const Packet& packet);
  unsigned take_sacks(const Packet& packet);
  void heard(const Out& one);
  bool mark_lost(std::uint64_t seq);
  bool detect(bool duplicate, unsigned advanced);
  bool detect_by_count();
  bool detect_by_time();
  void enter_recovery();
  void leave();
  bool may_undo(const Packet& packet) const;
  void undo();
  void proportional(unsigned delivered, bool advanced, bool lost_now);
  void handshake(const Packet& packet);
  void begin_reduction(State state);
  void take_rtt(Duration rtt);
  void rearm(bool restart);
  void timer();
  void timeout();
  void probe();
  void send_all();
  bool retransmit_next();
  bool send_new();
  void transmit(std::uint64_t seq, Out& one);

  World& world_;
  SenderConfig config_;
  Source& source_;
  const Route& route_;
  Window window_ {};
  std::unique_ptr<Congestion> control_;
  Stats stats_ {};

  medium::Ring<Out> outs_; // from window_.acked on
  std::uint32_t sacked_ = 0, lost_ = 0, again_ = 0;
  std::uint64_t highest_sacked_ = 0; // behind the highest
  std::uint64_t hint_ = 0;           // no lost segment without a retransmission is below
  std::uint64_t order_ = 0;

  State state_ = State::open;
  std::uint64_t high_seq_ = 0; // the recovery point
  double prior_cwnd_ = 0, prior_ssthresh_ = 0;
  double delivered_in_ = 0, sent_in_ = 0; // proportional rate reduction (RFC 6937)
  bool undo_possible_ = false;
  std::uint32_t first_again_ = 0; // TSval of the first retransmission of the episode

  // Newest delivered segment in the order of sending (RFC 8985).
  std::uint64_t rack_order_ = 0;
  Duration rack_rtt_ {};

  std::uint32_t ts_recent_ = 0;
  bool cwr_due_ = false;
  std::uint64_t cwr_until_ = 0; // ECE is heeded again when this is acknowledged
  std::uint64_t window_edge_ = ~std::uint64_t { 0 };
  bool limited_ = true; // the window was the reason to stop sending

  Duration rtt_var_ {};
  Duration rto_ = std::chrono::seconds { 1 };
  unsigned backoff_ = 0;
  bool timer_is_probe_ = false;
  bool probed_ = false;
  Tick syn_ack_at_ {};
  double limit_ = 1e18;
  bool closed_ = false;
  Tick ignore_until_ {};
  Timer timer_;
  Timer reorder_;
};

} // namespace tandem::sim
