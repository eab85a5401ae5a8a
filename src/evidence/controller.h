// Which modules may act on a flow now. All that are enabled, as a rule; but a small share of flows, and of the time
// within long flows, is given to comparisons: two stretches of equal length, one with and one without, in an order
// drawn by lot. A flow whose lot is to be without all of them stays so to its end. Modules that harm at a place rest
// there.
//
// Pure: time, seed and what is seen of flows come in, rulings go out. Whoever calls it switches modules on and off.
#pragma once

#include "src/evidence/memory.h"
#include "src/evidence/place.h"

#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tandem::evidence
{

constexpr std::size_t most_modules = 8;
using Modules = std::uint8_t; // bit i: module i

struct Settings
{
  double share = 0.05; // of flows, and of the time within long ones, that comparisons take from a module; 0: none
  Duration shortest = std::chrono::seconds { 2 }; // stretch of a comparison
  Duration longest = std::chrono::seconds { 10 };
  std::uint64_t seed = 0;
};

// Both clocks: comparisons are timed by the one that only goes forward.
struct Now
{
  Tick tick {};
  WallTime wall = 0;
};

// What is seen of a flow at a look.
struct FlowSeen
{
  std::uint64_t id = 0;
  Address server {};
  std::uint64_t delivered = 0; // bytes
  Tick last_seen {};           // packet of it
  Duration rtt {};             // zero: not known
  Modules acting = 0;          // modules that have begun on it and were not taken out
  bool needed = true;          // some module needs to see its packets
  bool hole = false;           // a loss episode is at hand
  bool engaged = false;        // a module withholds something, or validates a path: it will be done soon
  bool closed = false;
  bool unread = false;    // this host's application does not read: the receive window is closed by it
  std::uint64_t sent = 0; // bytes of this host
};

// What is so for all flows.
struct Surroundings
{
  bool up = true; // of the Wi-Fi link
  bool at_risk = false;
  Tick changed {};        // when `up` last changed
  bool too_fast = false;  // faster than any Wi-Fi: nothing can be gained, and every packet in the queue costs
  Modules comparable = 0; // enabled, and acting flow by flow
  // Of these the ones without which a stretch costs the rest of a flow: compared by whole flows only. A crossover trial
  // would charge the stretch with the module for what the one without it did.
  Modules carrying_over = 0;
};

struct Ruling
{
  Modules rests = 0;    // modules that do not act on the flow now
  bool watched = false; // its packets must be seen, whether a module needs them or not: it is measured

  bool operator==(const Ruling&) const = default;
};

class Controller
{
public:
  // `modules`: names, in the order of the bits; at most most_modules.
  Controller(Settings settings, std::vector<std::string> modules, Memory memory = {});

  // Where this host is now. Comparisons under way elsewhere are given up.
  void move(const NetworkSigns& network, const std::string& cell, WallTime wall);
  // The first word on a flow, before any module begins on it.
  Ruling begin(const FlowSeen& flow, const Surroundings& now, const Now& at);
  // The next one, some times a second.
  Ruling look(const FlowSeen& flow, const Surroundings& now, const Now& at);
  // After all flows were looked at: the others are gone.
  void sweep(const Now& at);

  struct Stats
  {
    std::uint64_t begun = 0, done = 0; // comparisons
    std::uint64_t given_up = 0;        // the flow ended, the link changed, or there was no good moment
    std::uint64_t empty = 0;           // neither stretch delivered enough to compare
    std::uint64_t rested = 0;          // times a module was put to rest somewhere
    std::uint64_t back = 0;            // times one came back
  };
  const Stats& stats() const { return stats_; }
  const Settings& settings() const { return settings_; }
  std::size_t flows() const { return flows_.size(); }
  const std::vector<std::string>& modules() const { return modules_; }
  // Of the network and the cellular link of now, all servers.
  Place here() const { return { network_, cell_, {} }; }
  Memory& memory() { return memory_; }
  const Memory& memory() const { return memory_; }

private:
  enum class Phase : std::uint8_t
  {
    opening, // the first seconds
    plain,   // to its end
    usual,
    wanted, // a comparison was drawn, and waits for a calm moment
    first,  // stretch
    second,
    ending, // of a comparison: back to what is usual with the next calm moment
  };
  struct Comparison
  {
    Modules toggled = 0; // what is on in one stretch and off in the other
    bool without_first = false;
    double weight = 1;
  };
  struct Flow
  {
    Place place {};
    std::uint32_t stay = 0; // of this host at a place
    Phase phase = Phase::usual;
    Comparison comparison {};
    Duration length {};            // of a stretch
    Tick begun {};                 // of the stretch, or of waiting
    Tick counted {};               // what came before is washout
    std::uint64_t bytes = 0;       // delivered at `counted`
    std::optional<double> rate {}; // of the first stretch
    Tick next_draw {};
    std::uint64_t delivered = 0; // at the last look
    Tick progress {};            // when it last grew
    std::uint64_t sent = 0;      // FlowSeen::sent then
    bool stalled = false;        // since then the transfer has gone on without progress
    Tick busy_since {};
    std::uint32_t draws = 0;
    // Modules that rest at the place, as of what was known then.
    Modules resting = 0, resting_of = 0;
    Tick resting_at {};
    std::uint64_t resting_known = 0;
    Ruling ruling {};
    bool bare = false;      // nothing acts in its opening, nor after it
    bool counting = false;  // the washout is over
    bool seen = false;      // at this round of looks
    std::uint32_t pair = 0; // its opening is half of a comparison
    std::uint8_t half = 0;
  };
  // Two flows to the same servers, one after the other or together.
  struct Pair
  {
    std::uint32_t id = 0;
    Comparison comparison {};
    Tick begun {};
    std::uint8_t flows = 0; // that take part
    std::array<std::optional<double>, 2> rates {};
    std::uint8_t ended = 0;
  };

  static constexpr std::size_t most_pairs = 256;

  double draw(std::uint64_t id, Flow& flow) const;
  Modules at_rest(Flow& flow, Modules comparable, const Now& at);
  std::optional<Comparison> draw_comparison(std::uint64_t id, Flow& flow, Modules comparable, const Now& at);
  static void follow(const FlowSeen& seen, Flow& flow);
  bool may_compare(const FlowSeen& seen, const Flow& flow, const Surroundings& now, Tick at) const;
  Duration stretch_of(Duration rtt) const;
  void open(std::uint64_t id, Flow& flow, const Surroundings& now, const Now& at);
  void opening(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at);
  static bool stalled(const FlowSeen& seen, const Flow& flow, const Surroundings& now);
  void end_opening(Flow& flow, const Now& at);
  void plain(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at);
  void usual(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at);
  void begin_stretch(const FlowSeen& seen, Flow& flow, Phase phase, const Surroundings& now, const Now& at);
  void stretch(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at);
  void end_stretch(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at);
  void give_up(Flow& flow, Phase next, Tick at);
  void learn(const Place& place, const Comparison& comparison, double with, double without, WallTime wall);
  void blame(const Place& where, Modules together, WallTime wall);
  std::string name_of(Modules modules) const;

  Settings settings_;
  std::vector<std::string> modules_;
  Memory memory_;
  std::uint32_t network_ = 0;
  std::string cell_ {};
  std::uint32_t stay_ = 0;
  std::unordered_map<std::uint64_t, Flow> flows_ {};
  std::map<Place, Pair> pairs_ {};
  std::uint32_t next_pair_ = 1;
  Stats stats_ {};
};

} // namespace tandem::evidence
