#include "modules/mirror/overflows.h"

#include <gtest/gtest.h>

namespace tandem::mirror
{
namespace
{

using namespace std::chrono_literals;

class MirrorOverflows : public testing::Test
{
protected:
  MirrorOverflows()
  {
    for (LinkState& link : links)
      link.changed = Tick { 50s };
  }
  void losses(int at_once, int alone, Link link = Link::wifi)
  {
    for (int i = 0; i < at_once + alone; ++i)
      overflows.lost(link, i < at_once, links, now += 10ms);
  }
  bool usual(Link link = Link::wifi) const { return overflows.usual(link, links, now); }

  Overflows overflows {};
  LinkStates links {};
  Tick now { 100s };
};

TEST_F(MirrorOverflows, AreUsualWhereAThirdIsLostAtOnce)
{
  EXPECT_FALSE(usual());
  losses(4, 7);
  EXPECT_TRUE(usual());
  EXPECT_FALSE(usual(wifi_link(1))) << "another access point";
  losses(0, 2);
  EXPECT_FALSE(usual()) << "the air loses more";
}

TEST_F(MirrorOverflows, AFewAreChance)
{
  losses(3, 0);
  EXPECT_FALSE(usual());
  losses(1, 0);
  EXPECT_TRUE(usual());
}

TEST_F(MirrorOverflows, OfTheAirAreNot)
{
  losses(8, 88); // network 48 of docs/results/drawn.md, 0.9 %
  EXPECT_FALSE(usual());
}

TEST_F(MirrorOverflows, AreForgotten)
{
  losses(8, 0);
  now += 15s;
  EXPECT_TRUE(usual());
  now += 10s;
  EXPECT_FALSE(usual());
}

TEST_F(MirrorOverflows, AreOthersOnceTheLinkWasDown)
{
  losses(8, 0);
  links[static_cast<std::size_t>(Link::wifi)].changed = now + 1ms;
  now += 1s;
  EXPECT_FALSE(usual());
  losses(4, 0);
  EXPECT_TRUE(usual());
}

} // namespace
} // namespace tandem::mirror
