#include "modules/mirror/fetching.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace tandem::mirror::fetching
{
namespace
{

using namespace test;

// The decision alone, as a module.
class Alone final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "mirror"; }
  std::string_view summary() const override { return ""; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override
  {
    return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data, .content = true };
  }
  Plan decide(const Event& event, const FlowView& flow, State& state) override
  {
    Plan plan {};
    if (event.kind == EventKind::alarm) plan = on_alarm(event, flow, state, settings, scratch);
    if (event.kind == EventKind::fetched) plan = on_fetched(event, flow, state, scratch);
    if (event.kind == EventKind::segment && event.queued && event.segment->is_pure_ack())
      plan = on_ack(event, flow, state, settings, scratch);
    if (!plan.why.empty()) ++reasons[std::string { plan.why }];
    last = state;
    return plan;
  }
  void describe(const FlowView& flow, const State& state, Facts& facts) const override
  {
    fetching::describe(flow, state, facts);
  }

  Settings settings {};
  Scratch scratch {};
  State last {};
  std::map<std::string, int> reasons {};
};

// A download of segments of 1,448 bytes, 40 ms away, of which single ones can be left out.
struct Holes : ::testing::Test
{
  static constexpr std::uint32_t mss = 1448;

  Holes()
  {
    fixture.open(peers);
    fixture.download(peers, 30, ms(4), ms(40), mss);
    fixture.chain.content(peers.key, Content::http, {});
    fixture.data(peers, mss, peers.local_ts(fixture.now() - ms(40)));
    fixture.show(peers.ack(fixture.now())); // the flow is followed from here on
    base = peers.received;
  }
  // A duplicate ACK that reports these blocks, in segments from the first missing byte on, the newest first.
  void report(std::vector<std::pair<int, int>> blocks)
  {
    fixture.run_for(ms(1));
    Segment ack = peers.ack(fixture.now());
    ack.options |= option::sack;
    for (const auto& [from, to] : blocks)
      ack.sack_blocks[ack.sack_count++] = { at(from), at(to) };
    fixture.show(ack);
  }
  Seq at(int segment) const { return peers.remote_isn + base + static_cast<std::uint32_t>(segment) * mss; }
  // All up to there has arrived in order.
  void arrives(int segment)
  {
    fixture.run_for(ms(1));
    peers.received = base + static_cast<std::uint32_t>(segment) * mss;
    fixture.show(peers.ack(fixture.now()));
  }
  void answer(std::size_t i, FetchResult result)
  {
    const Asked& asked = fixture.actions.asked.at(i);
    result.from = asked.fetch.from;
    result.to = asked.fetch.to;
    fixture.chain.fetched(asked.flow, asked.slot, result, 2000, fixture.now());
  }
  std::size_t asked() const { return fixture.actions.asked.size(); }
  const InjectedSegment& injected(std::size_t i) const { return fixture.actions.injected.at(i).segment; }
  std::size_t fills() const { return fixture.actions.injected.size(); }
  void clean()
  {
    EXPECT_EQ(fixture.violations(), 0u);
    EXPECT_EQ(fixture.chain.stats(0).excluded, 0u);
  }

  Alone module {};
  Fixture fixture { { &module } };
  Peers peers {};
  std::uint32_t base = 0;
};

TEST_F(Holes, ThreeSegmentsBehindItMakeAHoleSure)
{
  report({ { 1, 2 } });
  report({ { 1, 3 } });
  EXPECT_EQ(asked(), 0u) << "it may be reordering";
  report({ { 1, 4 } });
  ASSERT_EQ(asked(), 1u);
  EXPECT_EQ(fixture.actions.asked[0].fetch.from, at(0));
  EXPECT_EQ(fixture.actions.asked[0].fetch.to, at(1));
  EXPECT_GT(fixture.actions.asked[0].fetch.deadline, fixture.now() + ms(100));
  report({ { 1, 5 } });
  EXPECT_EQ(asked(), 1u) << "once";
  clean();
}

TEST_F(Holes, OrAQuarterOfTheRoundTrip)
{
  report({ { 1, 2 } });
  fixture.run_for(ms(4));
  EXPECT_EQ(asked(), 0u);
  fixture.run_for(ms(10));
  EXPECT_EQ(asked(), 1u);
  clean();
}

TEST_F(Holes, ReorderingIsNotAskedFor)
{
  report({ { 1, 2 } });
  arrives(3);
  fixture.run_for(ms(100));
  EXPECT_EQ(asked(), 0u);
  clean();
}

TEST_F(Holes, AFetchedHoleIsFilledAsOldAsTheLastInOrder)
{
  report({ { 1, 4 } });
  answer(0, { .ok = true });
  ASSERT_EQ(fills(), 1u);
  EXPECT_EQ(injected(0).kind, InjectedKind::fill);
  EXPECT_EQ(injected(0).seq, at(0));
  EXPECT_EQ(injected(0).length, mss);
  ASSERT_TRUE(injected(0).timestamps);
  EXPECT_EQ(injected(0).timestamps->value, peers.recent);
  arrives(4);
  EXPECT_EQ(module.last.filled, 1);
  EXPECT_EQ(module.reasons["mirror: fill acknowledged"], 1);
  clean();
}

TEST_F(Holes, WhatComesNoSoonerThanTheServersOwnIsNotFilled)
{
  for (int i = 0; i < 8; ++i)
  {
    report({ { 10 * i + 1, 10 * i + 5 } });
    ASSERT_EQ(asked(), static_cast<std::size_t>(i + 1));
    answer(asked() - 1, { .ok = true, .took = ms(38) }); // the round trip is 40 ms
    arrives(10 * i + 5);
  }
  EXPECT_EQ(fills(), 0u);
  EXPECT_EQ(module.last.beaten, 8);
  EXPECT_TRUE(module.last.backing_off);
  clean();
}

TEST_F(Holes, UnlessTheServersOwnWasLostToo)
{
  report({ { 1, 5 } });
  ASSERT_EQ(asked(), 1u);
  fixture.run_for(ms(65));
  answer(0, { .ok = true, .took = ms(65) });
  EXPECT_EQ(fills(), 1u);
  clean();
}

TEST_F(Holes, SeveralAtATimeAndNoMoreThanThat)
{
  module.settings.at_once = 3;
  report({ { 1, 2 } });
  report({ { 3, 4 }, { 1, 2 } });
  report({ { 5, 6 }, { 3, 4 }, { 1, 2 } });
  report({ { 7, 12 }, { 5, 6 }, { 3, 4 } });
  ASSERT_EQ(asked(), 3u);
  EXPECT_EQ(fixture.actions.asked[2].fetch.from, at(4));
  answer(1, { .ok = true }); // in any order
  EXPECT_EQ(injected(0).seq, at(2));
  report({ { 7, 13 }, { 3, 6 }, { 1, 2 } }); // [2, 3) by the fill, [4, 5) by the server
  EXPECT_EQ(asked(), 4u) << "there is room again";
  EXPECT_EQ(fixture.actions.asked[3].fetch.from, at(6));
  clean();
}

TEST_F(Holes, OneAckCanShowSeveral)
{
  report({ { 5, 9 }, { 1, 2 }, { 3, 4 } });
  ASSERT_EQ(asked(), 3u);
  EXPECT_EQ(fixture.actions.asked[0].fetch.to, at(1));
  EXPECT_EQ(fixture.actions.asked[1].fetch.from, at(2));
  EXPECT_EQ(fixture.actions.asked[2].fetch.from, at(4));
  clean();
}

TEST_F(Holes, WhatTheServerSentMeanwhileIsNotFilled)
{
  report({ { 1, 4 } });
  arrives(5);
  answer(0, { .ok = true });
  EXPECT_EQ(fills(), 0u);
  EXPECT_EQ(module.last.beaten, 1);
  EXPECT_EQ(module.reasons["mirror: fetched too late"], 1);
  clean();
}

TEST_F(Holes, HalfAHoleIsFilledToItsEnd)
{
  report({ { 2, 5 } });
  ASSERT_EQ(asked(), 1u);
  arrives(1);
  Segment again = peers.ack(fixture.now());
  again.sack_count = 1;
  again.sack_blocks[0] = { at(2), at(5) };
  fixture.show(again);
  answer(0, { .ok = true });
  ASSERT_EQ(fills(), 1u);
  EXPECT_EQ(injected(0).seq, at(1));
  EXPECT_EQ(injected(0).length, mss);
  clean();
}

TEST_F(Holes, ARefusalIsCountedByItsReasonAndEndsTheMatterForThisDownload)
{
  report({ { 1, 4 } });
  answer(0, { .why = "the answer has no strong ETag", .final = true });
  EXPECT_EQ(module.reasons["the answer has no strong ETag"], 1);
  arrives(4);
  base += 4 * mss;
  report({ { 1, 4 } });
  EXPECT_EQ(asked(), 1u);
  // The next download on the connection is another matter.
  fixture.chain.content(peers.key, Content::unknown, {});
  arrives(5);
  base += 5 * mss;
  fixture.chain.content(peers.key, Content::http, {});
  arrives(0);
  report({ { 1, 4 } });
  EXPECT_EQ(asked(), 2u);
  clean();
}

TEST_F(Holes, WhatIsSaidOfTheDownloadBeforeDoesNotRefuseTheNext)
{
  report({ { 1, 4 } });
  arrives(4); // whole; the next one on the connection follows before any ACK shows that
  answer(0, { .why = "the download is over", .final = true });
  base += 4 * mss;
  report({ { 1, 4 } });
  EXPECT_EQ(asked(), 2u);
  clean();
}

TEST_F(Holes, AServerThatIsAlwaysFasterIsLeftAlone)
{
  int segment = 0;
  const auto beaten = [&]
  {
    report({ { segment + 1, segment + 5 } });
    segment += 5;
    arrives(segment);
  };
  for (int i = 0; i < 40; ++i)
    beaten();
  EXPECT_EQ(asked(), 8u);
  EXPECT_EQ(module.reasons["mirror: backs off, the server is faster"], 1);
  fixture.run_for(ms(2100));
  for (int i = 0; i < 40; ++i)
    beaten();
  EXPECT_EQ(asked(), 16u) << "it is tried again";
  fixture.run_for(ms(2100));
  beaten();
  EXPECT_EQ(asked(), 16u) << "and the back-off is longer";
  clean();
}

TEST_F(Holes, FillsThatNobodyTakesAreNotMadeForEver)
{
  int segment = 0;
  for (int i = 0; i < 8; ++i)
  {
    report({ { segment + 1, segment + 5 } });
    if (asked() == static_cast<std::size_t>(i) + 1) answer(static_cast<std::size_t>(i), { .ok = true });
    fixture.run_for(ms(300));
    report({ { segment + 1, segment + 6 } });
    segment += 6;
    arrives(segment);
  }
  EXPECT_EQ(fills(), 3u);
  EXPECT_EQ(module.reasons["mirror: fill not taken"], 3);
  clean();
}

TEST_F(Holes, WithoutContentNothingIsAsked)
{
  for (const Content content : { Content::unknown, Content::refused })
  {
    fixture.chain.content(peers.key, content, "why");
    report({ { 1, 9 } });
    EXPECT_EQ(asked(), 0u);
  }
  // Its holes are not those of the download that begins.
  fixture.chain.content(peers.key, Content::http, {});
  report({ { 1, 10 } });
  EXPECT_EQ(asked(), 0u);
  clean();
}

TEST_F(Holes, WithoutACellularLinkNothingIsAsked)
{
  LinkStates links = both_links();
  links[static_cast<std::size_t>(Link::cell)].up = false;
  fixture.chain.links(links, fixture.now());
  report({ { 1, 9 } });
  EXPECT_EQ(asked(), 0u);
  clean();
}

TEST_F(Holes, AHoleTooLargeIsLeftToTheServer)
{
  report({ { 60, 70 } });
  EXPECT_EQ(asked(), 0u) << "86,880 bytes";
  clean();
}

// Whatever SACK blocks and answers come, in whatever order: the guard never has anything to say.
TEST_F(Holes, AnyReportsAreSurvived)
{
  std::mt19937 random { 5 };
  const auto some = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  int received = 0;
  for (int i = 0; i < 20'000; ++i)
  {
    fixture.run_for(ms(some(30)));
    switch (some(5))
    {
    case 0:
      received = some(8);
      peers.received = base + static_cast<std::uint32_t>(received) * mss;
      base = peers.received;
      arrives(0);
      break;
    case 1:
      if (asked() > 0)
      {
        const std::size_t back = static_cast<std::size_t>(some(4));
        const bool ok = some(4) > 0;
        answer(asked() - 1 - std::min(back, asked() - 1), { .ok = ok, .why = "none", .final = !ok && some(100) == 0 });
        if (some(2) == 0) arrives(0), peers.received = base += static_cast<std::uint32_t>(some(8)) * mss, arrives(0);
      }
      break;
    case 2:
      if (some(20) == 0) fixture.chain.content(peers.key, some(3) == 0 ? Content::unknown : Content::http, {});
      break;
    default:
      std::vector<std::pair<int, int>> blocks {};
      for (int b = some(4); b > 0; --b)
      {
        const int from = 1 + some(20);
        blocks.emplace_back(from, from + 1 + some(6));
      }
      report(blocks);
    }
  }
  EXPECT_GT(asked(), 100u);
  EXPECT_GT(fills(), 20u);
  clean();
}

} // namespace
} // namespace tandem::mirror::fetching
