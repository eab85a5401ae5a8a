// What kind of TCP servers turned out to have, for the connections to them that follow: most of a page's connections
// are over before they tell anything themselves.
#pragma once

#include <tandem/segment.h>
#include <tandem/sender.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>

namespace tandem::flow
{

// Of the last servers only, fixed in size. Kept by this host's own address as well: behind another network's proxy the
// same server's address may be another TCP.
class KnownSenders
{
public:
  static constexpr std::size_t most = 128;
  static constexpr Duration kept_for = std::chrono::hours { 1 };
  static constexpr int enough = 16; // votes: one alone may be wrong
  static constexpr int at_most = 40;

  // A connection's votes (SenderWatch::news): those of several, of which none was long enough to know, add up, and
  // where a balancer spreads them over different hosts they cancel each other out.
  void learned(const FlowKey& key, int votes, Tick now);
  // Whether its segments are those of a user-space stack (Sender::user_space), when that has become known or untrue.
  void learned_sizes(const FlowKey& key, bool user_space, Tick now);

  // rate_based; unresponsive: a user-space stack; unknown: neither is known, also of those that go by losses. What is
  // done to a connection of theirs that is known at once makes pages wait (decision 0040).
  SenderKind expected(const FlowKey& key, Tick now) const;

private:
  struct Known
  {
    Address local {}, remote {};
    Tick at {};
    int votes = 0;
    bool user_space = false;
    bool used = false;
  };
  // Made when there is none yet.
  Known& of(const FlowKey& key, Tick now);
  static auto find(auto& known, const FlowKey& key, Tick now);
  std::array<Known, most> known_ {};
};

} // namespace tandem::flow
