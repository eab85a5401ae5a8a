// The traps that are set, and what they look at. Pure: time and chain are handed in.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/trap.h"

#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tandem::daemon
{

class Traps
{
public:
  static constexpr std::size_t most = 16;
  // A trap that has fired waits as long, and until what it saw is over.
  static constexpr Duration rest = std::chrono::seconds { 30 };
  // What makes a flow a download for flow.gap and flow.goodput: so many bytes in a second.
  static constexpr std::uint64_t active_bytes = 32 * 1024;

  struct One
  {
    std::uint64_t id = 0;
    Trap trap {};
    bool save = false;
    std::uint64_t fired = 0;
    Tick fired_at {};
    std::string saw {};     // when it fired last: "flow.gap 612 ms of 192.0.2.1:443"
    std::string flow {};    // of which it saw that; empty: of a link
    std::string file {};    // that was saved last
    std::string problem {}; // why it could not be saved
    bool within = false;    // what it saw is not over
  };

  // Its number; nothing when there are too many.
  std::optional<std::uint64_t> add(const Trap& trap, bool save);
  bool remove(std::uint64_t id);
  const std::vector<One>& all() const { return all_; }
  One* find(std::uint64_t id);

  // Some times a second. The traps that fire now: their ids.
  std::vector<std::uint64_t> look(chain::Chain& chain, Tick now);

private:
  // Of one flow.
  struct Track
  {
    std::array<std::uint64_t, 8> delivered {}; // at the last looks, a ring
    std::array<Tick, 8> at {};
    std::size_t looks = 0;
    bool active = false;   // it was downloading when it was seen last
    bool arriving = false; // something was delivered since the last look
    double goodput = 0;    // bit/s over about a second
    bool measured = false; // over a whole second
    std::uint64_t generation = 0;
  };
  struct Seen
  {
    double value = 0;
    std::string of {};
  };

  void follow(Track& track, const FlowView& view, Tick now) const;
  std::optional<Seen> worst(const Trap& trap, chain::Chain& chain, Tick now);
  static std::optional<double> of_flow(const Trap& trap, const Track& track, const FlowView& view, Tick now);

  std::vector<One> all_ {};
  std::uint64_t next_ = 1;
  std::uint64_t generation_ = 0;
  std::unordered_map<std::uint64_t, Track> tracks_ {};
};

} // namespace tandem::daemon
