// A download through the real chain and the real module, with a server that echoes what reaches it.
#pragma once

#include "modules/offload/offload.h"
#include "tests/golden/harness/fixture.h"
#include "tests/golden/harness/server.h"

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
  bool injected = false;
  std::string why;
  std::uint32_t lacks = 0; // bytes of what the kernel has acknowledged by then
};

// Reports a lost segment, and one behind it.
inline void report_hole(Segment& ack)
{
  ack.sack_count = 1;
  ack.sack_blocks[0] = { ack.ack + 1448, ack.ack + 2896 };
  ack.options |= option::sack;
}

struct Session
{
  // What the core lets be withheld is not the module's.
  static chain::Chain::Options unlimited() { return { .release = { .young = 1000, .settled = 1000 } }; }

  explicit Session(Peers with = {}, chain::Chain::Options options = unlimited())
      : fixture { { &module }, options }, peers { with }
  {
    fixture.run_for(ms(1));
    server.send(fixture.now(), Link::wifi, peers.remote_isn, peers.local_ts(fixture.now()));
    fixture.open(peers);
    server.send(fixture.now(), Link::wifi, peers.remote_isn + 1, peers.local_ts(fixture.now()));
  }

  Server::Path& cell() { return server.paths[static_cast<std::size_t>(Link::cell)]; }
  Server::Path& wifi() { return server.paths[static_cast<std::size_t>(Link::wifi)]; }

  // Takes note of injected segments since the last call.
  void note_injected()
  {
    for (; noted < fixture.actions.injected.size(); ++noted)
    {
      const InjectedRecord& one = fixture.actions.injected[noted];
      note({ one.at, one.segment.by, one.segment.ack, one.segment.timestamps.value_or(Timestamps {}).value, true,
             one.why });
    }
  }
  void note(Left one)
  {
    one.lacks = static_cast<std::uint32_t>(fixture.view(peers).rcv_nxt - one.ack);
    server.send(one.at, one.by, one.ack, one.value);
    left.push_back(std::move(one));
  }
  void wait(Duration span)
  {
    fixture.run_for(span);
    note_injected();
  }
  // Data of the server is so long on its way from now on. What comes after a queue has grown left later, too.
  void downlink(Duration now)
  {
    const Duration longer = now - peers.downlink;
    peers.downlink = now;
    if (longer > Duration {}) wait(longer);
  }
  // ACKs by Wi-Fi wait so long for the air, for 100 segments.
  void wait_for_air(Duration extra)
  {
    wifi().delay = wifi().delay + extra;
    steps(100);
    wifi().delay = wifi().delay - extra;
  }
  // The kernel's ACK at hand, as it is or changed by the test.
  chain::Outcome ack(const Segment& segment)
  {
    acked = segment.ack;
    const chain::Outcome outcome = fixture.show(segment).value_or(chain::Outcome {});
    note_injected();
    if (outcome.verdict == Verdict::pass)
    {
      const TsClock own = segment.timestamps ? segment.timestamps->value : TsClock {};
      note({ fixture.now(), outcome.edit.route.value_or(Link::wifi), outcome.edit.ack.value_or(segment.ack),
             outcome.edit.ts_value.value_or(own), false, std::string { outcome.why } });
    }
    return outcome;
  }
  chain::Outcome ack() { return ack(peers.ack(fixture.now())); }
  void data() { fixture.data(peers, length, server.echo(fixture.now() - peers.downlink)); }
  // One segment's time: it arrives and is acknowledged.
  chain::Outcome step()
  {
    wait(every);
    data();
    note_injected();
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
    const std::uint64_t before = fixture.count(why);
    for (int i = 0; i < most && fixture.count(why) == before; ++i)
      step();
    return fixture.count(why) != before;
  }
  Phase phase() { return state().phase; }
  ValidatedPath::State& state()
  {
    flow::Flow& flow = fixture.flow(peers);
    auto* bytes = const_cast<std::byte*>(std::as_const(fixture.chain).state(flow, 0));
    return std::get<ValidatedPath::State>(Offload::state_of(bytes));
  }

  Offload module {};
  Fixture fixture;
  Peers peers;
  Server server {};
  Duration every = ms(1);
  std::uint32_t length = 2896;
  std::vector<Left> left {};
  Seq acked {}; // by the kernel
  std::size_t noted = 0;
};

} // namespace tandem::offload::test
