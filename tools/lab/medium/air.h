// The Wi-Fi air: access points and stations that share channels by the 802.11 distributed coordination function, slot
// by slot.
#pragma once

#include "tools/lab/medium/codel.h"
#include "tools/lab/medium/hidden.h"
#include "tools/lab/medium/loss.h"
#include "tools/lab/medium/outbox.h"
#include "tools/lab/medium/phy.h"
#include "tools/lab/medium/random.h"
#include "tools/lab/medium/rate_control.h"
#include "tools/lab/medium/ring.h"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::medium
{

struct Aggregation
{
  unsigned frames = 1;                             // MPDUs per A-MPDU, 1 .. 64; 1 = no aggregation
  std::uint32_t bytes = 65535;                     // of the whole A-MPDU
  Duration time = std::chrono::milliseconds { 4 }; // air time of the A-MPDU
};

struct AirConfig
{
  Phy phy = Phy::of(Standard::g);
  std::optional<unsigned> rate {}; // index into phy.rates; empty = Minstrel-like rate control
  unsigned retry_limit = 7;        // transmission attempts of one MPDU, the first included
  Aggregation aggregation {};
  unsigned ap_queue = 100; // packets an access point holds per station, drop-tail
  // What an access point holds is under CoDel (RFC 8289) with this target, but for the few frames that its driver has,
  // as Linux's access points have it (mac80211's queues, where the target is 20 ms). 0 = drop-tail alone.
  Duration codel {};
  unsigned station_queue = 1000; // packets a station holds
  Duration beacon_interval {};   // 0 = no beacons
  double noise_dbm = -95;
  double frame_error = 0;    // added error probability of every data attempt, on top of what the SNR gives
  LossSettings loss_down {}; // residual loss behind the MAC's retries; see Air
  LossSettings loss_up {};
  Duration delay {}; // constant delay behind the air (driver, interrupt), and uniform jitter on top
  Duration jitter {};
  Duration airless_delay = std::chrono::microseconds { 50 };
  bool power_save = false; // real stations doze when idle for power_save_timeout
  Duration power_save_timeout = std::chrono::milliseconds { 100 };
};

enum class Blackout : std::uint8_t
{
  none,
  drop,   // both ends discard what they hold and what comes; costs no air
  buffer, // both ends keep what they have (within their queues) and go on afterwards
  fade,   // frames are sent and retried, and nobody hears them
};

enum class Traffic : std::uint8_t
{
  up,   // station to access point
  down, // access point to station
};

struct NodeStats
{
  std::uint64_t submitted = 0;                      // packets handed over by the caller
  std::uint64_t delivered = 0, delivered_bytes = 0; // packets sent by this node that arrived (background included)
  std::uint64_t attempts = 0;                       // MPDU transmissions
  std::uint64_t exchanges = 0;                      // channel accesses
  std::uint64_t collisions = 0;                     // accesses that met another one
  std::uint64_t errors = 0;                         // MPDUs lost to noise
  std::array<std::uint64_t, drop_reason_count> drops {};
  Duration air {}; // channel time of this node's exchanges, responses included
};

// Sequence numbers (IEEE 802.11-2016 10.3.2.11): non-QoS frames of a transmitter take one counter, whoever they are
// for, and beacons and group-addressed frames with them; QoS data (standard n) has one per receiver. The model has one
// TID.
//
// Simplifications, all deliberate: every node on a channel senses every other one, interferers of set_hidden() and
// access points of another group aside, and there is no capture within a group; after a failed exchange everyone
// resumes at the same moment (the colliding stations' ACK timeout is as long as the EIFS of the others); an idle
// station that may send at once waits for the next slot boundary; access points serve their stations' queues in turn.
//
// Residual loss (loss_down, loss_up) stands for losses that the MAC did not repair: the receiver sees the frame with a
// wrong FCS, the sender takes it as delivered. It costs no retry, so the rate of the link stays what it is;
// `frame_error` is the loss that retries see.
//
// Time is handed in. Calls must come in order of time; before submit(now) or any setter, run_until(now) must have been
// called.
class Air
{
public:
  Air(const AirConfig& config, std::uint64_t seed, Outbox& outbox);

  // `signal_dbm` is what stations hear of it until set_signal() says otherwise. Access points of one channel that are
  // in different groups do not sense each other and contend apart, each group by slots of its own; stations sense both
  // and are sensed by both, and all of them are interfaces of one card, which hears nothing while it sends. What a
  // station makes of a frame that overlaps one of another group follows from its signal over the sum of noise and that
  // one's: the stronger one is captured or both are lost.
  NodeId add_access_point(Tick now, unsigned channel, double signal_dbm = -50, unsigned group = 0);
  // A station associated with `ap`, on its channel.
  NodeId add_station(NodeId ap);
  // Background traffic between a station and its access point: no real packets, but real air. `packet_bytes` is the
  // network-layer length. An empty rate means saturated: there is always a next packet.
  void add_background(Tick now, NodeId station, Traffic direction, std::uint32_t packet_bytes,
                      std::optional<Rate> rate);
  // An interferer that the access points do not sense. At this station each frame that overlaps one of its bursts is
  // lost, so the sender repeats it with a doubled window, perhaps into the same burst; of an A-MPDU the frames that it
  // meets are lost, all when it meets the preamble. The station senses it and waits for the end of a burst before it
  // sends, but acknowledges in any case. A monitor at the station misses frames that begin in a burst, and gets the
  // others with a bad FCS. Calling it again changes the settings of the station's interferer.
  void set_hidden(Tick now, NodeId station, const HiddenSettings& settings);
  // Frames are reported as this station would capture them (outbox.want_frames). Every frame on its channel is
  // reported, `heard` or not, with the truth: what a second monitor beside each transmitter would know. May be called
  // for several stations, the radios of one laptop: a frame is reported once, as its receiver among them hears it, or
  // the first one on its channel.
  void observe(NodeId station);

  // Hands over a packet. It ends as exactly one Delivery or Drop. `to` may be `nobody` from a station (its access
  // point) or for group-addressed packets of an access point, which go to every real station associated with it (one
  // Delivery, to the first).
  void submit(Tick now, const Packet& packet, NodeId from, NodeId to);
  // When something happens next; Tick::max() when nothing will.
  Tick next_event() const;
  // Processes everything up to and including `now`.
  void run_until(Tick now);

  // Live changes.
  void set_loss(Traffic direction, const LossSettings& settings);
  void set_frame_error(double probability) { config_.frame_error = probability; }
  void set_rate(std::optional<unsigned> rate);
  void set_codel(Duration target) { config_.codel = target; }
  void set_ap_queue(unsigned packets) { config_.ap_queue = packets; }
  void set_delay(Duration delay, Duration jitter);
  void set_power_save(Tick now, bool on);
  // Signal between a station and an access point, both ways: a constant, or points (time, dBm) interpolated linearly
  // and constant outside. Points must be in order of time.
  void set_signal(NodeId station, NodeId ap, double dbm);
  // Of this pair, both ways, in place of AirConfig: a fixed data rate (empty: as the configuration says), and an error
  // probability of each attempt on top of frame_error.
  void set_link(NodeId station, NodeId ap, std::optional<unsigned> rate, double frame_error);
  void set_signal(NodeId station, NodeId ap, std::vector<std::pair<Tick, double>> points);
  double signal(NodeId station, NodeId ap, Tick now) const;
  void set_blackout(Tick now, NodeId station, Blackout mode);
  // Leaves the old access point now and is associated with `ap` after `gap`. What the old one still holds is dropped,
  // or moved to the new one when `forward`.
  void handoff(Tick now, NodeId station, NodeId ap, Duration gap, bool forward);
  NodeId associated(NodeId station) const { return nodes_[station].associating ? nobody : nodes_[station].ap; }

  const NodeStats& stats(NodeId node) const { return nodes_[node].stats; }
  std::size_t queued(NodeId from, NodeId to) const;
  // Time for which the channel of this node was busy.
  Duration busy(NodeId node) const { return channels_[nodes_[node].channel].busy; }
  const AirConfig& config() const { return config_; }
  unsigned best_rate(NodeId from, NodeId to) const;

private:
  struct Queued
  {
    Handle handle = virtual_packet;
    std::uint32_t bytes = 0;
    std::uint16_t sequence = 0;
    std::uint8_t attempts = 0;
    bool numbered = false; // has its sequence number
    bool received = false; // the receiver has it
    bool lost = false;     // received, but taken away by the residual loss
    bool acked = false;    // the sender knows
    bool group = false;
    bool null_frame = false;
    bool settled = false; // delivered or dropped: the caller knows
  };

  struct Held
  {
    Packet packet {};
    Tick since {};
  };

  // One direction between a station and an access point: the sender's queue and what it knows of the link.
  struct Lane
  {
    explicit Lane(RateControl control, LossModel model) : rates(std::move(control)), loss(model) {}

    std::size_t packets() const { return queue.size() + held.size(); }

    NodeId to = nobody;
    NodeId station = nobody; // the station end
    bool open = true;        // associated
    bool down = false;
    Ring<Queued> queue;
    Ring<Held> held; // with CoDel: what comes behind the queue
    std::uint64_t held_bytes = 0;
    Codel codel {};
    std::size_t released = 0;        // entries at the front that the receiver has already handed up
    std::uint16_t next_sequence = 0; // of QoS data
    RateControl rates;
    bool own_rate = false;  // set_link
    double frame_error = 0; // set_link
    LossModel loss;
    std::uint32_t generation = 0; // changes when the queue is emptied under a frame that is on the air
    // Background load.
    bool saturated = false;
    std::uint32_t background_bytes = 0;
    Duration mean_gap {};
    // Error exponents per data rate at `snr_db`; NaN = not computed.
    double snr_db = 1e9;
    std::vector<double> exponents;
    double response_exponent = -1; // of the lowest basic rate; negative = not computed
  };

  struct Curve
  {
    NodeId ap = nobody;
    double dbm = -50;
    std::vector<std::pair<Tick, double>> points;
  };

  struct Node
  {
    bool is_ap = false;
    bool real = true; // false for stations with background traffic
    bool observes = false;
    std::uint8_t channel = 0;
    NodeId ap = nobody; // stations: their access point
    bool associating = false;
    std::uint32_t associations = 0;
    Blackout blackout = Blackout::none;
    bool dozing = false;
    bool waking = false; // a frame that ends the doze is queued
    Tick last_activity {};
    double dbm = -50;           // access points: default signal
    std::vector<Curve> signals; // stations: by access point
    std::vector<Lane> lanes;
    std::size_t lane = 0; // being served
    bool sticky = false;  // the last attempt failed: the same lane again
    bool contending = false;
    bool beacon_due = false;
    std::uint32_t cw = 0;
    std::uint32_t backoff = 0; // slots from the channel's `contention`
    std::uint32_t beacon_slot = 0;
    std::uint16_t next_sequence = 0;    // of non-QoS frames
    std::vector<HiddenTerminal> hidden; // stations: none or one
    Random random { 0 };
    NodeStats stats {};
    Tick last_release {}; // order is kept behind the air, whatever the jitter
  };

  struct Sending
  {
    NodeId node = 0;
    std::size_t lane = 0;
    FrameType type = FrameType::data;
    bool group = false;
    unsigned rate = 0;  // data rate index (unicast data)
    unsigned count = 0; // MPDUs
    std::uint32_t generation = 0;
    Duration duration {};
    std::uint16_t sequence = 0;              // of beacons
    std::array<std::uint8_t, 64> entries {}; // positions in the lane's queue
  };

  // A transmission as others may meet it.
  struct OnAir
  {
    Tick begin {}, end {};
    NodeId node = 0;
  };

  struct Channel
  {
    unsigned number = 0;
    unsigned group = 0;
    std::vector<std::uint8_t> apart; // the other groups on this number
    std::deque<OnAir> recent;        // kept only where there are some
    std::vector<NodeId> nodes;
    Tick contention {}; // slot 0 of the present contention period; Tick::max() while frames are on the air
    Tick next = Tick::max();
    Tick sent_at {};
    std::vector<Sending> sending;
    std::size_t senders = 0; // used part of `sending`
    Duration busy {};
  };

  enum class TimerKind : std::uint8_t
  {
    beacon,
    arrival,
    associate,
    doze,
  };

  struct Timer
  {
    Tick at {};
    std::uint64_t order = 0;
    TimerKind kind = TimerKind::beacon;
    NodeId node = 0;
    std::uint32_t lane = 0;
  };

  void add_timer(Tick at, TimerKind kind, NodeId node, std::uint32_t lane = 0);
  void fire(const Timer& timer);
  std::uint8_t channel_index(unsigned number, unsigned group);
  static void join(Channel& channel, NodeId id);
  Lane& make_lane(NodeId from, NodeId to, NodeId station, bool down);
  Lane* lane_to(NodeId from, NodeId to);
  bool blocked(const Lane& lane) const;
  bool eligible(const Lane& lane) const;
  bool has_work(const Node& node) const;
  void enlist(NodeId id);
  void refresh(Channel& channel);
  void enqueue(NodeId from, Lane& lane, const Packet& packet);
  static void push(const Node& node, Lane& lane, const Packet& packet);
  void pull(NodeId from, Lane& lane);
  void access(Channel& channel);
  bool prepare(NodeId id, Sending& out);
  void fill(Node& node, Lane& lane, Sending& out);
  bool wait_for_silence(Channel& channel, NodeId id);
  bool jammed(NodeId receiver, Tick from, Tick to);
  static void note_on_air(Channel& channel, const OnAir& one);
  bool senses(NodeId listener, NodeId transmitter) const;
  double interference(const Channel& channel, NodeId receiver, Tick from, Tick to) const;
  double sinr(const Lane& lane, double other) const;
  void finish(Channel& channel);
  Duration response_time(const Sending& sending) const;
  void settle_unicast(Channel& channel, const Sending& sending, bool collided);
  void settle_group(Channel& channel, const Sending& sending, bool collided);
  void release(NodeId sender, Lane& lane);
  void deliver(Handle handle, NodeId from, NodeId to, Tick at);
  void drop(Handle handle, NodeId from, DropReason why);
  void flush(NodeId from, Lane& lane, DropReason why);
  void wake_station(NodeId station);
  void doze_later(NodeId station);
  void update_quality(NodeId sender, Lane& lane);
  double frame_error(Lane& lane, unsigned rate_index, std::uint32_t mpdu) const;
  double response_error(Lane& lane, const PhyRate& rate, std::uint32_t bytes);
  double snr_between(NodeId a, NodeId b) const;
  NodeId observer_of(const Channel& channel, NodeId transmitter, NodeId receiver) const;
  FrameReport* report(const Channel& channel, NodeId transmitter, NodeId receiver, const PhyRate& rate,
                      std::uint32_t bytes, bool collided, Tick start, Duration duration);

  AirConfig config_;
  std::uint64_t seed_;
  Outbox& outbox_;
  Tick now_ {};
  std::vector<Node> nodes_;
  std::vector<Channel> channels_;
  std::vector<Timer> timers_; // heap, earliest first
  std::uint64_t timer_order_ = 0;
  std::uint64_t streams_ = 0;
  Ring<Delivery> flights_; // delivered by the air, still in the receiver's driver; in order of release
  Random driver_random_;   // jitter
  Random observer_random_; // what the observer misses of frames for others
  std::vector<NodeId> observers_;
  std::uint32_t aggregates_ = 0;
};

} // namespace tandem::medium
