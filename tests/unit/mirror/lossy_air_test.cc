#include "modules/mirror/lossy_air.h"

#include <gtest/gtest.h>

namespace tandem::mirror
{
namespace
{

using namespace std::chrono_literals;

class MirrorLossyAir : public testing::Test
{
protected:
  static FlowView of(std::uint8_t server, Link link = Link::wifi)
  {
    FlowView flow {};
    flow.key.remote.bytes = { 203, 0, 113, server };
    flow.link = link;
    return flow;
  }
  void losses(const FlowView& flow, int count, Duration apart = 1s)
  {
    for (int i = 0; i < count; ++i)
      air.lost(flow, { .lost = 0.01f, .carried = 3e6f }, now += apart);
  }
  float expected(const FlowView& flow) const { return air.expected(flow, links, now).lost; }

  LossyAir air {};
  LinkStates links {};
  Tick now { 100s };
};

TEST_F(MirrorLossyAir, IsKnownFromSeveralLossesOfTheSameServerOnTheSameLink)
{
  losses(of(1), 3);
  EXPECT_EQ(expected(of(1)), 0) << "three may be chance";
  losses(of(1), 1);
  EXPECT_EQ(expected(of(1)), 0.01f);
  EXPECT_EQ(expected(of(2)), 0) << "its sender may be of another kind";
  EXPECT_EQ(expected(of(1, wifi_link(1))), 0) << "another access point";
}

TEST_F(MirrorLossyAir, SeldomLossesAreNone)
{
  losses(of(1), 8, 7s); // four within 21 s
  EXPECT_EQ(expected(of(1)), 0);
  losses(of(1), 3, 6s);
  EXPECT_EQ(expected(of(1)), 0.01f);
}

TEST_F(MirrorLossyAir, IsForgottenAfterAMinute)
{
  losses(of(1), 4);
  now += 60s;
  EXPECT_EQ(expected(of(1)), 0.01f);
  now += 1s;
  EXPECT_EQ(expected(of(1)), 0);
}

TEST_F(MirrorLossyAir, IsAnotherOneOnceTheLinkWasDown)
{
  losses(of(1), 4);
  links[static_cast<std::size_t>(Link::wifi)].changed = now - 2s;
  EXPECT_EQ(expected(of(1)), 0) << "the oldest was before it";
  losses(of(1), 2);
  EXPECT_EQ(expected(of(1)), 0.01f);
}

TEST_F(MirrorLossyAir, TheServerThatLostLeastLatelyMakesRoom)
{
  for (std::uint8_t server = 1; server <= 9; ++server)
    losses(of(server), 4);
  EXPECT_EQ(expected(of(1)), 0);
  for (std::uint8_t server = 2; server <= 9; ++server)
    EXPECT_EQ(expected(of(server)), 0.01f) << int { server };
}

} // namespace
} // namespace tandem::mirror
