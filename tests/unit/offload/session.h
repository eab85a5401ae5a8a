// A download through the real chain and the real module, with a server that echoes what reaches it.
#pragma once

#include "modules/offload/offload.h"
#include "tests/golden/harness/fixture.h"
#include "tests/golden/harness/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
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
  Seq edge {};             // number and window
  std::uint32_t lacks = 0; // bytes of what the kernel has acknowledged by then

  // An old number by the flow's own link, which the server ignores (0042).
  bool for_firewalls() const { return why == "chain: for firewalls on the way of the data"; }
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
  // A window well above what is in flight, as Linux keeps it: with less no ACK leaves by cellular (0042).
  static Peers roomy(Peers with)
  {
    if (with.local_scale) with.local_scale = std::max<std::uint8_t>(*with.local_scale, 13);
    return with;
  }
  static std::vector<Module*> together(Module& first, std::vector<Module*> others)
  {
    others.insert(others.begin(), &first);
    return others;
  }
  // What the core lets be withheld is not the module's.
  static chain::Chain::Options unlimited() { return { .release = { .young = 1000, .settled = 1000 } }; }

  explicit Session(Peers with = {}, chain::Chain::Options options = unlimited())
      : Session { roomy(with), options, std::vector<Module*> {} }
  {
  }
  // `beside`: further modules of the chain. The window is as it is.
  Session(Peers with, chain::Chain::Options options, std::vector<Module*> beside)
      : fixture { together(module, std::move(beside)), options }, peers { with }
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
             one.why, one.segment.ack + fixture.view(peers).scaled(one.segment.window) });
    }
  }
  void note(Left one)
  {
    one.lacks = static_cast<std::uint32_t>(fixture.view(peers).rcv_nxt - one.ack);
    if (!one.for_firewalls()) server.send(one.at, one.by, one.ack, one.value);
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
             outcome.edit.ts_value.value_or(own), false, std::string { outcome.why },
             outcome.edit.ack.value_or(segment.ack)
                 + fixture.view(peers).scaled(outcome.edit.window.value_or(segment.window)) });
    }
    return outcome;
  }
  chain::Outcome ack() { return ack(peers.ack(fixture.now())); }
  void data()
  {
    echo = server.echo(fixture.now() - peers.downlink);
    fixture.data(peers, length, echo);
  }
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
  Seq acked {};    // by the kernel
  TsClock echo {}; // of the last data
  std::size_t noted = 0;
};

} // namespace tandem::offload::test
