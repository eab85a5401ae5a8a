// How efficiently each access point can send to us: the delivery probability of its attempts and the air time that one
// packet costs, from captured frames (A. Croitoru, D. Niculescu, C. Raiciu, "Towards WiFi mobility without fast
// handover", NSDI 2015, section 5.1), or, degraded, from the driver's counters. Pure.
#pragma once

#include "src/feeder/radio/ap_window.h"
#include "src/feeder/radio/attempt_bound.h"
#include "src/feeder/radio/report.h"
#include "src/feeder/radio/sequence_log.h"

#include <tandem/units.h>

#include <array>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tandem::feeder
{

struct EstimatorSettings
{
  Duration window = std::chrono::milliseconds { 500 }; // section 5.1, "Our implementation uses an interval of 500ms"
  unsigned packet_bytes = 1500;                        // MSS of their equation 1: network-layer length of a full packet
  unsigned retry_limit = 6; // R: attempts after the first (dot11ShortRetryLimit 7), unless fewer are seen
  unsigned enough = 100;    // frames in the window for full confidence
  Duration memory = std::chrono::seconds { 5 };        // over which given-up packets are counted
  Duration driver_window = std::chrono::seconds { 2 }; // counters of a driver move in jumps
  Duration beacon_window = std::chrono::seconds { 2 }; // section 6.5 counts beacons over 2 s
};

enum class Basis : std::uint8_t
{
  none,
  driver, // counters of nl80211: coarse
  frames, // captured frames
};

struct ApEstimate
{
  Mac ap {};
  Basis basis = Basis::none;
  std::optional<double> delivery {};      // probability that an attempt arrives, 0 .. 1 (equation 2)
  std::optional<Duration> packet_time {}; // T: mean time to deliver one packet if we were alone (equation 1)
  double confidence = 0;                  // 0 .. 1
  unsigned first = 0;                     // N0: packets in the window that arrived with the first attempt
  unsigned retried = 0;                   // N1: with a later one
  unsigned lost = 0;                      // Nlost: never
  std::optional<double> mbps {};          // mean PHY rate of data
  std::optional<std::uint8_t> mcs {};     // of the latest data frame
  std::optional<float> signal {};         // dBm, mean
  std::optional<double> beacon_loss {};   // share of the expected beacons that were not received
  // More packets are given up than independent losses of this probability explain: attempts fail together, as behind a
  // hidden terminal. The delivery probability is then too high.
  bool hidden_terminal = false;
};

class ApEstimator
{
public:
  // `own`: the addresses of our interfaces; frames for them count.
  explicit ApEstimator(std::vector<Mac> own, EstimatorSettings settings = {});

  void set_own(std::vector<Mac> own) { own_ = std::move(own); }
  void take(const Frame& frame, Tick at);
  void take(const StationStats& stats, Tick at);
  // Purges by time. Access points that were not heard for long are forgotten.
  void advance(Tick now);
  // Nothing of the past counts any more (the clock jumped, the source was away).
  void forget();

  std::optional<ApEstimate> estimate(const Mac& ap) const;
  // MHz, as its frames were heard on; 0 when no source of frames says.
  unsigned frequency(const Mac& ap) const;
  std::vector<ApEstimate> all() const; // in the order of addresses
  // Bytes that it takes for all access points.
  std::size_t memory() const;

private:
  struct Ap
  {
    explicit Ap(Duration window) : frames { window } {}

    ApWindow frames;
    Tick heard {};
    // Frames without QoS have the numbers of one counter, whoever they are for; QoS data has one for each receiver and
    // traffic class.
    SequenceLog shared {};
    std::array<std::optional<SequenceLog>, 8> classes {};
    double our_share = 1; // of the frames without QoS
    // Sums that fade over seconds, for what half a second is too short: packets, those of them that arrived with the
    // first attempt, those that never came.
    double packets = 0, firsts = 0, losts = 0;
    Tick faded {};
    AttemptBound attempts {};
    struct Arrival
    {
      Tick at {};
      bool retried = false;
    };
    std::array<Arrival, 6> for_us {}; // the latest frames for us that arrived, a ring
    std::size_t for_us_count = 0;
    int lost_before = 0;                       // found missing by a frame for others
    bool beacons_share = false;                // beacons have numbers of the shared counter
    std::array<std::uint16_t, 128> damaged {}; // who was heard damaged: class and number, the newest ones
    std::size_t damaged_count = 0;
    std::optional<std::uint32_t> aggregate {};
    std::optional<std::uint8_t> mcs {};
    std::optional<float> signal {};
    unsigned frequency = 0;
    bool qos = false;
    std::deque<Tick> beacons {};
    Tick beacons_since {};
    Duration beacon_interval {};

    std::deque<std::pair<Tick, StationStats>> stats {}; // from the driver, in order of time
  };

  bool ours(const Mac& mac) const;
  Ap& find(const Mac& mac, Tick at);
  void purge(Ap& ap) const;
  void for_us(Ap& ap, const Frame& frame, Tick at);
  void for_others(Ap& ap, const Frame& frame);
  void learn_attempts(Ap& ap, ApWindow::Seen& seen, unsigned ahead, Tick at) const;
  bool beacon_missed(const Ap& ap, Tick from, Tick to) const;
  void heard(Ap& ap, const Frame& frame, Tick at);
  void beacon(Ap& ap, const Frame& frame, Tick at);
  struct Failures;
  Failures failures(const Ap& ap) const;
  bool fail_together(const Ap& ap, const Failures& failed) const;
  void packet_time(const Ap& ap, const Failures& failed, ApEstimate& out) const;
  ApEstimate from_frames(const Mac& mac, const Ap& ap) const;
  void from_driver(const Ap& ap, ApEstimate& out) const;
  std::optional<double> beacon_loss(const Ap& ap) const;

  std::vector<Mac> own_;
  EstimatorSettings settings_;
  std::map<Mac, Ap> aps_ {};
  Tick now_ {};
};

} // namespace tandem::feeder
