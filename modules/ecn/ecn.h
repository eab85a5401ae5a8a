// Steering away from inefficient access points, after Croitoru et al. (NSDI 2015): of several access points on one
// channel the slow ones cost the air that the fast ones could use better. Beyond the paper: how far they may be used is
// found by measuring, and senders that do not couple their subflows are steered by MP_PRIO.
#pragma once

#include "modules/ecn/delta.h"
#include "modules/ecn/loop.h"
#include "modules/ecn/ranking.h"

#include <tandem/module.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>

namespace tandem::ecn
{

enum class Strategy : std::uint8_t
{
  closed,    // the worse links as far as they bring something, by measured goodput
  published, // marks by equation 5 on every worse link, nothing else
  on_off,    // one access point at a time, in turn (sections 5 and 7)
};

enum class Sender : std::uint8_t
{
  automatic, // coupled when it speaks MPTCP version 0
  coupled,
  uncoupled,
};

enum class RttChoice : std::uint8_t
{
  least,
  smoothed,
};

struct Knobs
{
  double strategy = 0;    // Strategy
  double sender = 0;      // Sender
  double threshold = 1.2; // RankingSettings
  double release = 1.1;
  double hold = 0.5; // s
  double clear = 2;
  double confidence = 0.2;
  double remember = 600; // s
  double cap = 0.05;     // DeltaSettings
  double buffer = 200;   // packets
  double below_pole = 0; // BelowPole
  double rtt = 0;        // RttChoice
  double most_used = 4;  // access points at the same time
  double settle = 0.5;   // s, LoopSettings
  double measure = 1;    // s
  double gain = 0.05;
  double full = 0.8;

  double retry = 10;         // s
  double retry_most = 160;   // s
  double cycle = 0.25;       // s, of the level that uses a link part of the time
  double share = 0.5;        // of that cycle
  double on_off_cycle = 0.2; // s
  double on_off_alpha = 2;
  double on_off_least = 0.01; // s
  double leave_dead = 1;      // whether a link that is down loses its endpoint
};

// Of all MPTCP subflows on one link.
struct Path
{
  std::uint32_t flows = 0;
  std::uint64_t delivered = 0;                                        // bytes, of flows that ended too
  Duration smoothed {};                                               // of the subflow that was heard last
  std::array<Duration, 2> least { Duration::max(), Duration::max() }; // of this span of time and the one before
  Tick least_from {};
  Tick markable_at {}; // when ECN-capable data arrived last
};

// Whose subflows are where.
struct Connection
{
  std::array<std::uint16_t, link_count> flows {};
  std::optional<std::uint8_t> version {};
};

class Ecn;

struct State
{
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Ecn* owner = nullptr; // set with the first event of an MPTCP subflow
  Link link = Link::other;
  std::uint32_t token = 0;
  std::uint64_t counted = 0; // bytes_delivered that the path knows of
};

class Ecn final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "ecn"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const Knob> knobs() const override;
  void set(std::string_view knob, double value) override;
  double get(std::string_view knob) const override;
  Interest interest() const override;
  int priority() const override { return 40; }
  Plan decide(const Event& event, const FlowView& flow, State& state) override;
  void describe(const FlowView& flow, const State& state, Facts& facts) const override;

  void left(const State& state);

private:
  // What a link is told.
  struct Treatment
  {
    double ce_rate = 0;
    bool backup = false;
    bool dead = false; // no endpoint

    bool operator==(const Treatment&) const = default;
  };
  using Treatments = std::array<Treatment, link_count>;
  // The last packet time of a Wi-Fi link that could be believed.
  struct Memory
  {
    Duration packet_time {};
    Tick at {};
    Duration traffic_at {}; // on the clock that runs while something is downloaded
    Duration best_then {};  // packet time of the best link
  };

  // Packet times of too few frames each, added up by their confidence.
  struct Evidence
  {
    double weight = 0;
    double weighted_time = 0; // s
    Tick from {};
    Tick taken {};
  };

  void account(const Event& event, const FlowView& flow, State& state);
  void tick(const Event& event);
  static std::optional<Duration> believe(Evidence& evidence, const RadioState& radio, Tick now, double least);
  void learn_times(const LinkStates& links, Tick now);
  Strategy strategy() const { return static_cast<Strategy>(static_cast<int>(knobs_.strategy)); }
  bool siblings(Link link, bool good_only) const;
  bool coupled(Link link) const;
  double rate_for(Link link, const LinkState& state, Tick now) const;
  Tick treat(const LinkStates& links, Tick now);
  Tick treat_in_turn(Tick now);
  Plan plan(const Event& event);

  Knobs knobs_ {};
  std::array<Path, link_count> paths_ {};
  std::map<std::uint32_t, Connection> connections_; // by the server's token
  Ranking ranking_;
  Loop loop_;
  std::array<std::optional<Memory>, most_wifi> memory_ {};
  std::array<Evidence, most_wifi> evidence_ {};
  std::array<std::optional<Duration>, most_wifi> times_ {}; // T_i as it is taken to be now
  Duration traffic_ {};                                     // time in which something was downloaded
  std::uint64_t delivered_ = 0;
  Tick learned_ {};
  Treatments wanted_ {}, told_ {};
  bool marking_ = false; // there is one more level, without marks
  std::size_t loop_levels_ = 1;
  Tick next_ {};        // look
  Tick wake_ {};        // asked for
  bool retell_ = false; // what was told before may be forgotten
  Tick told_at_ {};     // everything
  std::string_view why_ {};
  std::array<Wish, 3 * link_count> wishes_ {};
};

} // namespace tandem::ecn
