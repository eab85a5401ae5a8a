#include "modules/ecn/ranking.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::ecn
{
namespace
{

using namespace std::chrono_literals;

struct Fixture
{
  std::array<Candidate, most_wifi> links {};
  Ranking ranking;
  RankingSettings settings {};
  Tick now { 1h };

  void set(std::size_t i, double packet_ms, std::uint32_t frequency = 2412)
  {
    links[i] = { true, from_seconds(packet_ms * 1e-3), frequency };
  }
  bool update(Duration later = 100ms)
  {
    now += later;
    return ranking.update(links, now, settings);
  }
  std::vector<int> order() const
  {
    const auto o = ranking.order();
    return { o.begin(), o.end() };
  }
};

TEST(ranking, sorts_by_packet_time_and_tells_who_is_worse)
{
  Fixture s;
  s.set(0, 3);
  s.set(1, 0.5);
  s.set(2, 0.55);
  EXPECT_TRUE(s.update());
  EXPECT_EQ(s.order(), (std::vector<int> { 1, 2, 0 }));
  EXPECT_EQ(s.ranking.good(), 2u);
  EXPECT_TRUE(s.ranking.worse(0));
  EXPECT_FALSE(s.ranking.worse(2));
  EXPECT_EQ(s.ranking.best_time(), 500us);
  EXPECT_FALSE(s.update()) << "nothing changed";
}

TEST(ranking, twenty_percent_is_the_threshold)
{
  Fixture s;
  s.set(0, 1);
  s.set(1, 1.19);
  s.set(2, 1.21);
  s.update();
  EXPECT_FALSE(s.ranking.worse(1));
  EXPECT_TRUE(s.ranking.worse(2));
}

TEST(ranking, short_fluctuations_change_nothing)
{
  Fixture s;
  s.set(0, 1);
  s.set(1, 1);
  s.update();
  for (int i = 0; i < 40; ++i)
  {
    s.set(1, i % 4 < 3 ? 1.9 : 1); // 300 ms of doubt at a time
    EXPECT_FALSE(s.update());
    EXPECT_FALSE(s.ranking.worse(1));
  }
}

TEST(ranking, what_lasts_counts_both_ways_with_hysteresis)
{
  Fixture s;
  s.set(0, 1);
  s.set(1, 1);
  s.update();
  s.set(1, 1.3);
  int ticks = 0;
  while (!s.ranking.worse(1) && ticks < 100)
  {
    s.update();
    ++ticks;
  }
  EXPECT_EQ(ticks, 6) << "the first look begins the doubt";
  s.set(1, 1.15); // between release and threshold
  for (int i = 0; i < 20; ++i)
    s.update();
  EXPECT_TRUE(s.ranking.worse(1));
  s.set(1, 1.05);
  for (int i = 0; i < 6; ++i)
    s.update();
  EXPECT_FALSE(s.ranking.worse(1));
}

TEST(ranking, the_best_may_change_places)
{
  Fixture s;
  s.set(0, 0.5);
  s.set(1, 3);
  s.update();
  s.set(0, 3);
  s.set(1, 0.5);
  bool changed = false;
  for (int i = 0; i < 10; ++i)
  {
    changed = s.update() || changed;
    EXPECT_GE(s.ranking.good(), 1u);
  }
  EXPECT_TRUE(changed);
  EXPECT_EQ(s.order(), (std::vector<int> { 1, 0 }));
  EXPECT_EQ(s.ranking.good(), 1u);
}

TEST(ranking, a_clear_case_needs_no_time)
{
  Fixture s;
  s.set(0, 1);
  s.set(1, 1);
  s.update();
  EXPECT_FALSE(s.ranking.turned());
  s.set(1, 2);
  EXPECT_TRUE(s.update());
  EXPECT_TRUE(s.ranking.worse(1));
  EXPECT_TRUE(s.ranking.turned());
  EXPECT_FALSE(s.update());
  EXPECT_FALSE(s.ranking.turned());
  s.set(2, 7);
  EXPECT_TRUE(s.update());
  EXPECT_TRUE(s.ranking.worse(2));
  EXPECT_FALSE(s.ranking.turned()) << "it came as it is";
}

TEST(ranking, leaves_out_what_is_not_known_or_not_usable)
{
  Fixture s;
  s.set(0, 3);
  s.set(1, 0.5);
  s.set(2, 1);
  s.links[1].packet_time.reset();
  s.links[2].usable = false;
  s.update();
  EXPECT_EQ(s.order(), (std::vector<int> { 0 })) << "fewer than two: nothing to choose";
  EXPECT_FALSE(s.ranking.worse(0));
}

TEST(ranking, other_channels_do_not_compete)
{
  Fixture s;
  s.set(0, 3, 2412);
  s.set(1, 0.5, 5180);
  s.set(2, 1, 2412);
  s.set(3, 1, 0); // does not know its channel: taken to be here
  s.update();
  EXPECT_EQ(s.order(), (std::vector<int> { 2, 3, 0 }));
  EXPECT_FALSE(s.ranking.worse(1));
}

TEST(ranking, eight_links_fit)
{
  Fixture s;
  for (std::size_t i = 0; i < most_wifi; ++i)
    s.set(i, 8.0 - static_cast<double>(i));
  s.update();
  EXPECT_EQ(s.order(), (std::vector<int> { 7, 6, 5, 4, 3, 2, 1, 0 }));
  EXPECT_EQ(s.ranking.good(), 1u);
}

} // namespace
} // namespace tandem::ecn
