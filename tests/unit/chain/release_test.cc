// What leaves never advances the sender much further at once than the local TCP's own ACKs did.
#include "src/chain/release.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::chain
{
namespace
{

using namespace test;

// Keeps back as much as it was told to, by lowering the number or by leaving ACKs out.
class Withholder final : public Module
{
public:
  explicit Withholder(std::string_view name = "withholder") : name_ { name } {}
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return "withholds"; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override
  {
    return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data };
  }
  std::size_t flow_state_size() const override { return 1; }
  void flow_begin(std::byte*, const FlowView&) override {}
  void flow_end(std::byte*) noexcept override {}
  Plan decide(const Event& event, const FlowView& flow, std::byte*) override
  {
    if (event.kind != EventKind::segment || !event.queued || !event.segment->is_pure_ack()) return {};
    if (repeats_in_next(*event.segment, flow) && left_out < leaves_out)
    {
      ++left_out;
      return { .verdict = Verdict::drop, .why = "left out" };
    }
    left_out = 0;
    if (bound > 0)
      return { .edit = { .window = std::uint16_t(event.segment->window - bound), .window_waits = waits },
               .why = "bound" };
    if (bytes == 0 || event.segment->sack_count > 0) return {};
    return { .edit = { .ack = later(event.segment->ack - bytes, flow.sent_ack) }, .why = "lowered" };
  }
  void describe(const FlowView&, const std::byte*, Facts&) const override {}

  std::uint32_t bytes = 0;
  int leaves_out = 0; // in a row
  int left_out = 0;
  std::uint16_t bound = 0; // of the window
  bool waits = false;

private:
  std::string_view name_;
};

struct Release : testing::Test
{
  Release() { fixture.open(peers); }

  // A growing flow: each round twice the segments of the one before.
  void slow_start(int rounds)
  {
    for (int round = 0, count = 4; round < rounds; ++round, count *= 2)
      fixture.download(peers, count, ms(20.0 / count), ms(20));
  }
  void settle() { fixture.download(peers, 200, ms(2), ms(20)); }
  std::uint32_t mss() const { return fixture_mss; }
  std::uint32_t withheld() { return static_cast<std::uint32_t>(view().rcv_nxt - view().sent_ack); }
  const FlowView& view() { return fixture.view(peers); }
  Segment with_hole()
  {
    Segment segment = peers.ack(fixture.now());
    const Seq una = segment.ack;
    segment.sack_blocks[0] = { una + 1448, una + 2896 };
    segment.sack_count = 1;
    return segment;
  }

  static constexpr std::uint32_t fixture_mss = 1448;
  Withholder module {};
  Fixture fixture { { &module } };
  Peers peers {};
};

TEST_F(Release, TwoSegmentsAreWithheldInSlowStart)
{
  slow_start(5);
  ASSERT_TRUE(view().slow_start);
  module.bytes = 60 * mss();
  fixture.download(peers, 40, ms(0.1), ms(20));
  EXPECT_EQ(withheld(), 2 * mss());
  EXPECT_GT(fixture.chain.stats().less_withheld, 0u);
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST_F(Release, AnInitialWindowAfterIt)
{
  settle();
  ASSERT_FALSE(view().slow_start);
  module.bytes = 60 * mss();
  fixture.download(peers, 40, ms(2), ms(20));
  EXPECT_EQ(withheld(), 10 * mss());
}

TEST_F(Release, NoMoreACKsAreLeftOutThanMayBe)
{
  settle();
  module.leaves_out = 1000;
  std::uint32_t most = 0;
  for (int i = 0; i < 60; ++i)
  {
    fixture.download(peers, 1, ms(2), ms(20));
    most = std::max(most, withheld());
  }
  EXPECT_EQ(most, 10 * mss());
}

// freeze beside offload: what is withheld for a blackout must not take all that ACKs left out need.
TEST_F(Release, WhatOneModuleWithholdsLeavesRoomForTheACKsThatAnotherLeavesOut)
{
  Withholder thinner { "thinner" };
  Fixture both { { &module, &thinner } };
  both.open(peers);
  both.download(peers, 200, ms(2), ms(20));
  ASSERT_FALSE(both.view(peers).slow_start);
  module.bytes = 60 * mss();
  both.download(peers, 40, ms(2), ms(20));
  EXPECT_EQ(static_cast<std::uint32_t>(both.view(peers).rcv_nxt - both.view(peers).sent_ack), 10 * mss());
  thinner.leaves_out = 3;
  both.download(peers, 100, ms(2), ms(20)); // the room is made
  int left = 0;
  for (int i = 0; i < 400; ++i)
  {
    const Seq before = both.view(peers).sent_ack;
    both.download(peers, 1, ms(2), ms(20));
    if (both.view(peers).sent_ack != before) ++left;
  }
  EXPECT_LE(left, 120) << "one ACK in four is enough";
  thinner.leaves_out = 0;
  both.run_for(ms(1100));
  both.download(peers, 100, ms(2), ms(20));
  EXPECT_EQ(static_cast<std::uint32_t>(both.view(peers).rcv_nxt - both.view(peers).sent_ack), 10 * mss());
  EXPECT_EQ(both.violations(), 0u);
}

// mirror beside offload: a window that bounds what is in flight must not bring back every ACK that was left out.
TEST_F(Release, ABoundedWindowThatMayWaitLeavesACKsOut)
{
  Withholder thinner { "thinner" };
  Fixture both { { &module, &thinner } };
  both.open(peers);
  both.download(peers, 200, ms(2), ms(20));
  thinner.leaves_out = 3;
  const auto left = [&](std::uint16_t bound, bool waits)
  {
    module.bound = bound;
    module.waits = waits;
    int count = 0;
    for (int i = 0; i < 400; ++i)
    {
      const Seq before = both.view(peers).sent_ack;
      both.download(peers, 1, ms(2), ms(20));
      if (both.view(peers).sent_ack != before) ++count;
    }
    return count;
  };
  const int unbounded = left(0, false);
  EXPECT_LE(left(10, true), unbounded + 4) << "one ACK in four is enough";
  EXPECT_EQ(both.view(peers).sent_window, both.view(peers).last_window - 10);
  const int insisting = left(20, false);
  EXPECT_GT(insisting, 3 * unbounded) << "an edit that may not wait asks that its ACK leaves";
  // What such an edit has told the server is taken back by the first ACK without it.
  module.bound = 0;
  thinner.left_out = 0;
  both.download(peers, 1, ms(2), ms(20));
  EXPECT_EQ(both.view(peers).sent_window, both.view(peers).last_window);
  EXPECT_EQ(both.violations(), 0u);
}

TEST_F(Release, WhatIsWithheldLeavesAheadOfTheACKThatShowsAHole)
{
  settle();
  module.bytes = 10 * mss();
  fixture.download(peers, 40, ms(2), ms(20));
  ASSERT_EQ(withheld(), 10 * mss());
  const Segment hole = with_hole();
  const std::optional<Outcome> outcome = fixture.show(hole);
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  const InjectedSegment& ahead = fixture.actions.injected[0].segment;
  EXPECT_EQ(ahead.ack, hole.ack);
  EXPECT_EQ(ahead.sack_count, 0);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->edit.ack);
  EXPECT_EQ(withheld(), 0u);
  // Once: the next one with the hole brings nothing more.
  fixture.run_for(ms(1));
  fixture.show(with_hole());
  EXPECT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST_F(Release, NothingIsWithheldUntilTheRecoveryMustBeOver)
{
  settle();
  fixture.show(with_hole());
  fixture.run_for(ms(25)); // longer than an overtaken segment takes
  module.bytes = 10 * mss();
  fixture.download(peers, 5, ms(2), ms(20));
  EXPECT_EQ(view().loss_episodes, 1);
  EXPECT_EQ(withheld(), 0u);
  fixture.download(peers, 40, ms(2), ms(20));
  EXPECT_EQ(withheld(), 10 * mss());
}

TEST_F(Release, APredictedBlackoutIsWorthAShareOfTheWindow)
{
  settle();
  fixture.download(peers, 400, ms(0.2), ms(20)); // 100 ACKs of two segments a round trip
  module.bytes = 1000 * mss();
  fixture.links[static_cast<std::size_t>(Link::wifi)].at_risk = true;
  fixture.chain.links(fixture.links, fixture.now());
  fixture.download(peers, 100, ms(0.2), ms(20));
  EXPECT_GT(withheld(), 12 * mss());
  EXPECT_LE(withheld(), view().window_estimate / 6);
}

} // namespace
} // namespace tandem::chain
