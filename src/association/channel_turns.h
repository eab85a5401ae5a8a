// One card at access points of several channels: on which of them it is present, and by which of them downloads come.
// Plans of BestChannel become orders for Presence, and what became of these is counted. Pure: time, bytes and reports
// are handed in.
#pragma once

#include "src/association/best_channel.h"
#include "src/association/presence.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::association
{

class ChannelTurns
{
public:
  // Less in a cycle, in bytes, is no download: two packets, and what beacons and address leases bring.
  static constexpr std::uint64_t idle_bytes = 3000;
  // How long a cycle is then, where nobody has to take turns.
  static constexpr Duration idle_cycle = std::chrono::seconds { 1 };
  // After so many orders that failed, one after the other, none is given any more: the card is present everywhere, and
  // only the subflows take turns.
  static constexpr std::uint32_t most_failures = 3;

  // As Presence::shares_time().
  explicit ChannelTurns(bool shares_time) : shares_time_ { shares_time } {}

  struct Channel
  {
    unsigned frequency = 0;  // MHz
    std::uint64_t bytes = 0; // that its interfaces have received so far
  };
  struct Order
  {
    unsigned frequency = 0;
    bool present = false;
    Tick due {}; // when it should be carried out: the beginning of its slot
  };
  struct Step
  {
    std::vector<Order> orders {}; // to be carried out one after the other
    std::set<unsigned> backup {}; // channels whose subflows are backups (MP_PRIO)
    Tick next = Tick::max();      // look again
  };

  // The channels that the card has stations on, each once; other ones than at the last look begin anew, with equal
  // shares. With one channel, or none, there is nothing to do.
  Step look(std::span<const Channel> channels, Tick now);
  // What became of an order that look() gave.
  void carried_out(const Order& order, const Presence::Report& report);

  struct Counters
  {
    std::uint64_t orders = 0;
    std::uint64_t late = 0;   // of these: done later than switching_cost after they were due
    std::uint64_t failed = 0; // of these
    Duration longest {};      // from due to done
  };
  const Counters& counters() const { return counters_; }
  // What is done now, in a few words for the user; empty with fewer than two channels.
  std::string_view why() const { return why_; }
  // Why no orders are given any more; empty: they are.
  const std::string& problem() const { return problem_; }
  // MHz of the channel that brought most in the last comparison; 0: there was none.
  unsigned best() const { return best_; }

private:
  struct Known
  {
    unsigned frequency = 0;
    std::uint64_t bytes = 0; // when the cycle began
    bool present = true;
    Tick since {};     // that it is present, or that the cycle began
    Duration there {}; // in this cycle, until it went away last
  };

  void begin(std::span<const Channel> channels, Tick now);
  void end_cycle(std::span<const Channel> channels, Tick now);
  bool in_slots() const { return !shares_time_ && problem_.empty(); }
  bool wanted(std::size_t channel, Tick now) const;
  Tick slot_begin(std::size_t channel) const;
  Tick next_slot(Tick now) const;
  Known* known(unsigned frequency);

  bool shares_time_;
  BestChannel rule_ {};
  BestChannel::Plan plan_ {};
  std::vector<Known> channels_ {};
  Tick cycle_began_ {}, cycle_ends_ {};
  std::uint32_t failures_ = 0; // one after the other
  unsigned best_ = 0;
  std::string_view why_ {}; // literal
  std::string problem_ {};
  Counters counters_ {};
};

} // namespace tandem::association
