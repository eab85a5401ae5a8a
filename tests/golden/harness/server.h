// A server's timestamp bookkeeping over two ACK paths, as in RFC 7323 with Linux's PAWS: which ACKs it takes, and what
// it echoes when. Enough to prove a path or to fail to.
#pragma once

#include "tests/golden/harness/fixture.h"

#include <tandem/seq.h>
#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <vector>

namespace tandem::test
{

class Server
{
public:
  struct Path
  {
    Duration delay = ms(10);
    Duration spacing {};  // an uplink takes one ACK in this time, those behind it wait
    bool delivers = true; // false: a source-address filter, or a NAT that makes another connection of it
  };
  std::array<Path, link_count> paths {};
  std::int32_t paws_window = 1; // ticks an ACK may be older than the newest: 1 in Linux, 0 by the letter of the RFC

  // An ACK leaves the host.
  void send(Tick now, Link by, Seq ack, TsClock value);
  // All that arrived until `when` is taken in order of arrival. Returns what a segment sent at `when` echoes.
  TsClock echo(Tick when);
  // When all that has left by that way is behind its bottleneck.
  Tick free_at(Link by) const { return free_at_[static_cast<std::size_t>(by)]; }

  Seq acknowledged {};
  std::uint64_t taken = 0;
  std::uint64_t rejected = 0; // by PAWS

private:
  struct Flying
  {
    Tick at {};
    std::uint64_t order = 0;
    Seq ack {};
    TsClock value {};
  };
  std::array<Tick, link_count> free_at_ {};
  std::vector<Flying> flying_ {};
  std::uint64_t order_ = 0;
  TsClock recent_ {};
  bool any_ = false;
};

} // namespace tandem::test
