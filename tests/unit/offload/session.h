// A download through the real chain and the real module, with a server that echoes what reaches it.
#pragma once

#include "modules/offload/offload.h"
#include "tests/golden/harness/server.h"
#include "tests/golden/harness/stand.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::offload::test
{

using namespace tandem::test;

// What left this host, by whichever way.
struct Left
{
  Tick at {};
  Link by = Link::wifi;
  Seq ack {};
  TsClock value {};
  bool crafted = false;
  std::string why;
};

struct Session
{
  explicit Session(Peers with = {}, chain::Chain::Options options = {}) : stand { { &module }, options }, peers { with }
  {
    stand.run_for(ms(1));
    server.send(stand.now(), Link::wifi, peers.remote_isn, peers.local_ts(stand.now()));
    stand.open(peers);
    server.send(stand.now(), Link::wifi, peers.remote_isn + 1, peers.local_ts(stand.now()));
  }

  Server::Path& cell() { return server.paths[static_cast<std::size_t>(Link::cell)]; }
  Server::Path& wifi() { return server.paths[static_cast<std::size_t>(Link::wifi)]; }

  // Takes note of crafted segments since the last call.
  void note_crafts()
  {
    for (; noted < stand.actions.crafted.size(); ++noted)
    {
      const Crafted& one = stand.actions.crafted[noted];
      note({ one.at, one.craft.by, one.craft.ack, one.craft.timestamps.value_or(Timestamps {}).value, true, one.why });
    }
  }
  void note(Left one)
  {
    server.send(one.at, one.by, one.ack, one.value);
    left.push_back(std::move(one));
  }
  void wait(Duration span)
  {
    stand.run_for(span);
    note_crafts();
  }
  // The kernel's ACK at hand, as it is or changed by the test.
  chain::Outcome ack(const Segment& segment)
  {
    acked = segment.ack;
    const chain::Outcome outcome = stand.show(segment).value_or(chain::Outcome {});
    note_crafts();
    if (outcome.verdict == Verdict::pass)
    {
      const TsClock own = segment.timestamps ? segment.timestamps->value : TsClock {};
      note({ stand.now(), outcome.edit.route.value_or(Link::wifi), segment.ack, outcome.edit.ts_value.value_or(own),
             false, std::string { outcome.why } });
    }
    return outcome;
  }
  chain::Outcome ack() { return ack(peers.ack(stand.now())); }
  void data() { stand.data(peers, length, server.echo(stand.now() - peers.downlink)); }
  // One segment's time: it arrives and is acknowledged.
  chain::Outcome step()
  {
    wait(every);
    data();
    note_crafts();
    return ack();
  }
  void steps(int count)
  {
    for (int i = 0; i < count; ++i)
      step();
  }
  // Until the module gives this reason (true) or `most` segments have come.
  bool until(std::string_view why, int most = 5000)
  {
    const std::uint64_t before = stand.count(why);
    for (int i = 0; i < most && stand.count(why) == before; ++i)
      step();
    return stand.count(why) != before;
  }
  Phase phase() { return state().phase; }
  ValidatedPath::State& state()
  {
    flow::Flow& flow = stand.flow(peers);
    auto* bytes = const_cast<std::byte*>(std::as_const(stand.chain).state(flow, 0));
    return std::get<ValidatedPath::State>(Offload::state_of(bytes));
  }

  Offload module {};
  Stand stand;
  Peers peers;
  Server server {};
  Duration every = ms(1);
  std::uint32_t length = 2896;
  std::vector<Left> left {};
  Seq acked {}; // by the kernel
  std::size_t noted = 0;
};

} // namespace tandem::offload::test
