// What this host itself sent into a blackout, at its end (docs/decisions/0038).
#include "src/chain/chain.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tandem::chain
{
namespace
{

using namespace test;

class Wanting final : public Module
{
public:
  std::string_view name() const override { return "wanting"; }
  std::string_view summary() const override { return "wants own segments again"; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override { return { .decide = traffic::egress_pure_ack, .own_unanswered = wants }; }
  std::size_t flow_state_size() const override { return 1; }
  void flow_begin(std::byte*, const FlowView&) override {}
  void flow_end(std::byte*) noexcept override {}
  Plan decide(const Event&, const FlowView&, std::byte*) override { return {}; }
  void describe(const FlowView&, const std::byte*, Facts&) const override {}

  bool wants = true;
};

struct OwnUnanswered : ::testing::Test
{
  std::vector<InjectedRecord> told(const Unanswered& socket)
  {
    fixture.actions.injected.clear();
    fixture.chain.unanswered(socket, fixture.now());
    fixture.actions.carry_out(fixture.chain);
    return fixture.actions.injected;
  }
  std::vector<InjectedRecord> opening() { return told({ .flow = peers.key, .opening = true, .doubled = 2 }); }
  std::vector<InjectedRecord> waiting(std::uint8_t doubled, std::uint32_t acked, std::uint32_t unacked = 0)
  {
    return told({ .flow = peers.key, .doubled = doubled, .acked = acked, .unacked = unacked });
  }

  Wanting module {};
  Fixture fixture { { &module } };
  Peers peers {};
};

TEST_F(OwnUnanswered, TheSynLeavesOnceMoreAndItsClockHasGoneOn)
{
  const Segment syn = peers.syn(fixture.now());
  fixture.show(syn);
  fixture.run_for(ms(700));
  const auto again = opening();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].segment.kind, InjectedKind::own_syn);
  EXPECT_EQ(again[0].segment.by, Link::wifi);
  EXPECT_EQ(again[0].segment.original.size(), syn.bytes.size());
  // Never an echo of the future: the TCP would answer it with a reset.
  EXPECT_EQ(again[0].segment.timestamps->value, syn.timestamps->value + 699);
  EXPECT_EQ(fixture.chain.stats().own_syns, 1u);
}

TEST_F(OwnUnanswered, WithoutTimestampsTheSynIsAsItWas)
{
  peers.timestamps = false;
  fixture.show(peers.syn(fixture.now()));
  fixture.run_for(ms(700));
  const auto again = opening();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_FALSE(again[0].segment.timestamps);
}

TEST_F(OwnUnanswered, OfAnOpeningOnlyWhatWasSeenWholeAndLately)
{
  EXPECT_TRUE(opening().empty()) << "an unknown flow";
  Segment cut = peers.syn(fixture.now());
  cut.payload_length = 500; // RFC 7413, behind what is captured
  fixture.show(cut);
  EXPECT_TRUE(opening().empty());
  fixture.show(peers.syn(fixture.now()));
  EXPECT_EQ(opening().size(), 1u);
  fixture.run_for(SentSyns::kept_for + ms(1));
  EXPECT_TRUE(opening().empty());
}

// By a program that chooses its port, and sends data with its SYN (RFC 7413): the one of before has another number.
TEST_F(OwnUnanswered, OfPortsThatAreUsedAgainTheOlderSynDoesNotLeave)
{
  fixture.show(peers.syn(fixture.now()));
  fixture.show(peers.bare(Direction::ingress, tcp_flag::rst | tcp_flag::ack, fixture.now()));
  fixture.run_for(ms(1000));
  peers.local_isn = peers.local_isn + 77'777;
  Segment longer = peers.syn(fixture.now());
  longer.payload_length = 500;
  fixture.show(longer);
  EXPECT_TRUE(opening().empty());
}

TEST_F(OwnUnanswered, ManyOpeningsLoseTheOldest)
{
  std::vector<Peers> all(SentSyns::most + 1);
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    all[i].key.local_port = static_cast<std::uint16_t>(20000 + i);
    fixture.show(all[i].syn(fixture.now()));
    fixture.show(all[i].syn(fixture.now())); // again, in the same place
  }
  peers.key = all[0].key;
  EXPECT_TRUE(opening().empty());
  peers.key = all[1].key;
  EXPECT_EQ(opening().size(), 1u);
  peers.key = all.back().key;
  EXPECT_EQ(opening().size(), 1u);
}

TEST_F(OwnUnanswered, OneMessageForEachDoublingQuotesWhatIsNotAcknowledged)
{
  fixture.open(peers);
  const auto messages = waiting(3, 1 + 500); // the SYN counts
  ASSERT_EQ(messages.size(), 3u);
  for (const InjectedRecord& one : messages)
  {
    EXPECT_EQ(one.segment.kind, InjectedKind::own_unreachable);
    EXPECT_EQ(one.segment.by, Link::other) << "where the routes lead: to this host";
    EXPECT_EQ(one.segment.seq, peers.local_isn + 501);
  }
  EXPECT_TRUE(waiting(0, 501).empty()) << "nothing was sent twice: its timer has not doubled";
  EXPECT_EQ(waiting(200, 501).size(), 10u);
  EXPECT_EQ(fixture.chain.stats().own_kicks, 2u) << "connections, not messages";
}

TEST_F(OwnUnanswered, WhoseSynWasNotSeenIsQuotedByWhatItsPeerSaidAndWhereItsLastAckStood)
{
  fixture.show(peers.ack(fixture.now())); // attached in its middle
  auto messages = waiting(1, 77);
  ASSERT_EQ(messages.size(), 1u) << "its peer has said nothing yet";
  EXPECT_EQ(messages[0].segment.seq, peers.ack(fixture.now()).seq);
  fixture.see_everything = true;
  const Segment arriving = peers.data_in(fixture.now(), 100, peers.local_ts(fixture.now()));
  fixture.show(arriving);
  messages = waiting(1, 77);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].segment.seq, arriving.ack);
  // An answer that no copy was made of: the last ACK stands further than what is known to be acknowledged.
  peers.next += 300;
  fixture.show(peers.ack(fixture.now()));
  messages = waiting(2, 77);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].segment.seq, arriving.ack);
  EXPECT_EQ(messages[2].segment.seq, peers.ack(fixture.now()).seq);
  // The kernel tells how much of what was seen to leave waits: 91 bytes.
  messages = waiting(1, 77, 91);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2].segment.seq, peers.ack(fixture.now()).seq - 91);
  EXPECT_EQ(waiting(1, 77, 300).size(), 2u) << "as the peer said";
}

TEST_F(OwnUnanswered, NothingWithoutAModuleThatWantsIt)
{
  fixture.open(peers);
  EXPECT_TRUE(fixture.chain.own_unanswered());
  module.wants = false;
  EXPECT_FALSE(fixture.chain.own_unanswered());
  EXPECT_TRUE(waiting(1, 1).empty());
  module.wants = true;
  fixture.chain.enable(0, false, fixture.now());
  EXPECT_FALSE(fixture.chain.own_unanswered());
  EXPECT_TRUE(waiting(1, 1).empty());
}

TEST_F(OwnUnanswered, NothingOfFlowsThatRestAreLeftAloneOrNotOfThisLink)
{
  fixture.open(peers);
  flow::Flow& flow = fixture.flow(peers);
  fixture.chain.rest(flow, { .modules = 1 }, fixture.now());
  EXPECT_TRUE(waiting(1, 1).empty());
  fixture.chain.rest(flow, { .modules = every_module }, fixture.now());
  EXPECT_TRUE(waiting(1, 1).empty());
  fixture.chain.rest(flow, {}, fixture.now());
  EXPECT_EQ(waiting(1, 1).size(), 1u);
  flow.view.link = Link::cell;
  EXPECT_TRUE(waiting(1, 1).empty());
  flow.view.link = Link::wifi;
  flow.view.bypass = Bypass::authenticated;
  EXPECT_TRUE(waiting(1, 1).empty());
}

} // namespace
} // namespace tandem::chain
