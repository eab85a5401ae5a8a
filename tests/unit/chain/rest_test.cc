// Modules that rest on a flow: not asked, told when they acted, and new when they come back.
#include "src/chain/chain.h"
#include "tests/golden/harness/fixture.h"

#include <tandem/pure_ack.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tandem::chain
{
namespace
{

using namespace test;

// Acknowledges nothing new from its first ACK on, until it is told to stop.
class Withholder : public Module
{
public:
  explicit Withholder(std::string name) : name_ { std::move(name) } {}
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return "withholds"; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override { return { .decide = traffic::egress_pure_ack }; }
  std::size_t flow_state_size() const override { return sizeof(Seq); }
  void flow_begin(std::byte* state, const FlowView& flow) override
  {
    new (state) Seq { flow.sent_ack };
    ++begun;
  }
  void flow_end(std::byte*) noexcept override { ++ended; }
  Plan decide(const Event& event, const FlowView&, std::byte* state) override
  {
    events.push_back(event.kind);
    if (event.kind != EventKind::segment || !event.queued || !withholds)
      return { .cell_path = found, .frames_kept = kept, .quiet = quiet };
    return { .edit = { .ack = *reinterpret_cast<Seq*>(state) }, .why = "test: withheld" };
  }
  void describe(const FlowView&, const std::byte*, Facts&) const override {}
  int heard(EventKind kind) const { return static_cast<int>(std::count(events.begin(), events.end(), kind)); }

  bool withholds = false;
  std::optional<CellPath> found {};
  std::optional<bool> kept {};
  std::optional<Tick> quiet {};
  int begun = 0, ended = 0;
  std::vector<EventKind> events {};

private:
  std::string name_;
};

struct ChainRest : ::testing::Test
{
  void download(unsigned times = 10) { fixture.download(peers, times, ms(5), ms(20)); }
  flow::Flow& flow() { return *fixture.chain.table().find(peers.key); }
  void rest(const Rest& wanted)
  {
    fixture.chain.rest(flow(), wanted, fixture.now());
    fixture.actions.carry_out(fixture.chain);
  }
  static constexpr Rest none {}, first { .modules = 1 }, second { .modules = 2 };

  Withholder a { "a" }, b { "b" };
  int asked = 0;
  Rest at_first {};
  Fixture fixture { { &a, &b },
                    { .rest = [this](const FlowView&)
                      {
                        ++asked;
                        EXPECT_EQ(a.begun + b.begun, a.ended + b.ended) << "before the first module begins";
                        return at_first;
                      } } };
  Peers peers {};
};

TEST_F(ChainRest, IsAskedOnceForAFlowAndKept)
{
  at_first = first;
  fixture.open(peers);
  download();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(a.begun, 0);
  EXPECT_TRUE(a.events.empty());
  EXPECT_EQ(b.begun, 1);
  EXPECT_GT(b.heard(EventKind::segment), 5);
  fixture.chain.links(both_links(), fixture.now());
  EXPECT_EQ(a.heard(EventKind::link), 0);
  EXPECT_EQ(b.heard(EventKind::link), 1);
}

TEST_F(ChainRest, WhatAModuleWithholdsLeavesWhenItsRestBegins)
{
  fixture.open(peers);
  download();
  a.withholds = true;
  download();
  const FlowView& view = fixture.view(peers);
  ASSERT_TRUE(view.rcv_nxt.after(view.sent_ack));
  rest(first);
  EXPECT_EQ(a.heard(EventKind::switched_off), 1);
  EXPECT_EQ(a.ended, 1);
  EXPECT_EQ(view.sent_ack, view.rcv_nxt);
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].why, "chain: ACK that a module withheld");
  download();
  EXPECT_EQ(view.sent_ack, view.rcv_nxt) << "it is not asked any more";
  EXPECT_EQ(b.heard(EventKind::switched_off), 0);
  EXPECT_EQ(fixture.violations(), 0u);

  rest(second);
  EXPECT_EQ(b.heard(EventKind::switched_off), 1);
  download(1);
  EXPECT_EQ(a.begun, 2) << "it begins anew";
  rest(none);
  EXPECT_EQ(a.heard(EventKind::switched_off), 1);
}

TEST_F(ChainRest, WhatAPathValidationFoundIsHandedOnAndOtherFlowsAreTold)
{
  fixture.open(peers);
  download(10);
  EXPECT_FALSE(fixture.view(peers).cell_path_failed);
  a.found = CellPath { .is = CellPath::Is::validated, .added_delay = ms(7) };
  const Segment ack = peers.ack(fixture.now());
  static_cast<void>(static_cast<Chain&>(fixture.chain).segment(ack, true, fixture.now()));
  ASSERT_EQ(fixture.chain.output().paths.size(), 1u);
  EXPECT_EQ(fixture.chain.output().paths[0].server, peers.key.remote);
  EXPECT_EQ(fixture.chain.output().paths[0].local, peers.key.local);
  EXPECT_EQ(fixture.chain.output().paths[0].path.is, CellPath::Is::validated);
  EXPECT_EQ(fixture.chain.output().paths[0].path.added_delay, ms(7));
  fixture.chain.output().clear();
  EXPECT_TRUE(fixture.chain.output().empty());
  rest({ .cell_path_failed = true });
  EXPECT_TRUE(fixture.view(peers).cell_path_failed);
}

TEST_F(ChainRest, WhatTheEndOfABlackoutShowedIsHandedOn)
{
  fixture.open(peers);
  download(10);
  for (const bool kept : { true, false })
  {
    a.kept = kept;
    const Segment ack = peers.ack(fixture.now());
    static_cast<void>(static_cast<Chain&>(fixture.chain).segment(ack, true, fixture.now()));
    EXPECT_FALSE(fixture.chain.output().empty());
    ASSERT_EQ(fixture.chain.output().kept.size(), 1u);
    EXPECT_EQ(fixture.chain.output().kept[0].link, Link::wifi);
    EXPECT_EQ(fixture.chain.output().kept[0].kept, kept);
    fixture.chain.output().clear();
    EXPECT_TRUE(fixture.chain.output().empty());
  }
}

TEST_F(ChainRest, AFlowBeginsWithThePathThatIsKnownAndARestLeavesItAsItIs)
{
  at_first.cell_path_known = ms(-3);
  fixture.open(peers);
  download();
  EXPECT_EQ(fixture.view(peers).cell_path_known, ms(-3));
  rest(first);
  EXPECT_EQ(fixture.view(peers).cell_path_known, ms(-3));
}

TEST_F(ChainRest, AFlowThatIsLeftAloneNeedsNoQueueAndIsAskedAboutAnewAfterwards)
{
  fixture.open(peers);
  download();
  a.withholds = true;
  download();
  rest({ .modules = every_module });
  EXPECT_TRUE(left_alone(flow()));
  EXPECT_EQ(a.ended + b.ended, 2);
  EXPECT_EQ(fixture.view(peers).sent_ack, fixture.view(peers).rcv_nxt) << "what was withheld has left";
  const std::size_t heard = a.events.size() + b.events.size();
  const std::uint64_t before = fixture.chain.stats().excluded;
  download();
  EXPECT_EQ(a.events.size() + b.events.size(), heard);
  EXPECT_GT(fixture.chain.stats().excluded, before);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now()));
  EXPECT_EQ(asked, 1);
  rest(none);
  download(2);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(a.begun, 2);
}

TEST_F(ChainRest, APrivatePeerIsToldOnceAndTheGuardKeepsItOffTheCellularLink)
{
  at_first = { .cell_denied = CellDenied::private_peer };
  fixture.open(peers);
  download();
  const FlowView& flow = fixture.view(peers);
  EXPECT_EQ(flow.cell_denied, CellDenied::private_peer);
  EXPECT_EQ(fixture.chain.stats().private_peers, 1u);
  rest(second);
  EXPECT_EQ(flow.cell_denied, CellDenied::private_peer) << "for as long as the flow lives";

  const LinkStates links = both_links();
  const Segment ack = peers.ack(fixture.now());
  const Event event { .segment = &ack, .queued = true, .links = &links };
  const Plan route { .edit = { .route = Link::cell } };
  EXPECT_EQ(check(route, event, flow, 100'000), Violation::route_unusable);
  FlowView other = flow;
  other.cell_denied = CellDenied::no;
  EXPECT_EQ(check(route, event, other, 100'000), Violation::none);
}

TEST_F(ChainRest, AFlowThatIsWatchedIsNeededThoughItsModulesAreQuiet)
{
  a.quiet = b.quiet = Tick::max();
  fixture.open(peers);
  download();
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now()));
  rest({ .modules = 3, .watched = true });
  download(1);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
  rest({ .modules = 3 });
  download(1);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now())) << "all rest, and nobody looks";
}

// What this host sends is the matter of a module that rests here, what it gets is not worth another one's while yet: a
// request with a long body.
TEST(ChainRestUpload, AnUploadDoesNotHideTheDownloadThatFollows)
{
  struct Uploader final : Withholder
  {
    using Withholder::Withholder;
    Interest interest() const override
    {
      return { .decide = traffic::egress_pure_ack, .observe = traffic::egress_data | traffic::ingress_ack };
    }
  };
  Withholder a { "a" };
  Uploader b { "b" };
  Fixture fixture { { &a, &b }, { .worth = 14'000, .rest = [](const FlowView&) { return Rest { .modules = 2 }; } } };
  Peers peers {};
  fixture.open(peers);
  for (int i = 0; i < 20; ++i)
  {
    fixture.show(peers.data_out(fixture.now(), 1448));
    peers.next += 1448;
    fixture.run_for(ms(2));
  }
  fixture.download(peers, 1, ms(5), ms(20));
  ASSERT_EQ(a.begun + b.begun, 0);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
}

} // namespace
} // namespace tandem::chain
