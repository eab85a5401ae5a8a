#include "modules/ecn/loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace tandem::ecn
{
namespace
{

using namespace std::chrono_literals;

// Goodput by level and time, in bytes per second.
using Model = std::function<double(std::size_t level, double at)>;

struct Outcome
{
  double delivered = 0;
  double seconds = 0;
  std::vector<double> at_level = std::vector<double>(Loop::most_levels, 0.0); // seconds
  Loop loop;
};

Outcome run(const Model& model, double length, Look look = { .capacity = 3e6, .spare = 5e5, .levels = 3 },
            LoopSettings settings = {})
{
  Outcome out;
  Tick now { 1h };
  for (; out.seconds < length; out.seconds += 0.1, now += 100ms)
  {
    look.delivered = static_cast<std::uint64_t>(out.delivered);
    out.loop.look(look, now, settings);
    const std::size_t level = out.loop.level();
    out.at_level[level] += 0.1;
    out.delivered += 0.1 * model(level, out.seconds);
  }
  return out;
}

TEST(loop, stays_at_the_bottom_where_the_best_link_fills_the_air)
{
  const Outcome r = run([](std::size_t level, double) { return level == 0 ? 2.9e6 : 6e5; }, 120);
  EXPECT_EQ(r.loop.trials(), 0u) << "the air that is left over is not worth a try";
  EXPECT_NEAR(r.at_level[0], 120, 0.2);
}

TEST(loop, goes_up_where_more_links_bring_more)
{
  const Outcome r = run([](std::size_t level, double) { return level == 0 ? 2e5 : level == 1 ? 4e5 : 6e5; }, 60);
  EXPECT_EQ(r.loop.level(), 2u);
  EXPECT_GT(r.at_level[2], 45);
  EXPECT_GT(r.delivered, 0.85 * 60 * 6e5);
}

TEST(loop, finds_the_part_time_level_between)
{
  const Outcome r = run([](std::size_t level, double) { return level == 0 ? 4e5 : level == 1 ? 9e5 : 6e5; }, 120);
  EXPECT_EQ(r.loop.level(), 1u);
  EXPECT_GT(r.at_level[1], 80);
}

TEST(loop, takes_the_lower_level_of_two_that_bring_the_same)
{
  const Outcome r = run([](std::size_t, double) { return 5e5; }, 120);
  EXPECT_EQ(r.loop.level(), 0u);
  EXPECT_GT(r.at_level[0], 100);
}

TEST(loop, asks_less_and_less_often)
{
  const Model bad_above = [](std::size_t level, double) { return level == 0 ? 1e6 : 3e5; };
  const Outcome r = run(bad_above, 400, { .capacity = 3e6, .spare = 2.4e6, .levels = 3 });
  EXPECT_GE(r.loop.trials(), 3u);
  EXPECT_LE(r.loop.trials(), 9u) << "10, 20, 40, 80, 160 s";
  EXPECT_GT(r.delivered, 0.97 * 400 * 1e6) << "trying costs little";
  EXPECT_EQ(r.loop.moves(), 0u);
}

TEST(loop, begins_anew_when_the_goodput_falls)
{
  // After a minute the best link's uplink is full.
  const Model model = [](std::size_t level, double at) {
    return at < 60 ? (level == 0 ? 2e6 : 6e5) : (level == 0 ? 1e5 : level == 1 ? 3e5 : 5e5);
  };
  const Outcome r = run(model, 120);
  EXPECT_LT(r.at_level[0], 75);
  EXPECT_GT(r.at_level[2], 40);
}

TEST(loop, forgets_when_the_links_change)
{
  Loop loop;
  Tick now { 1h };
  Look look { .capacity = 3e6, .spare = 5e5, .levels = 3 };
  double delivered = 0;
  for (int i = 0; i < 300; ++i, now += 100ms)
  {
    look.delivered = static_cast<std::uint64_t>(delivered);
    loop.look(look, now, {});
    delivered += loop.level() == 0 ? 1e4 : loop.level() == 1 ? 3e4 : 6e4;
  }
  ASSERT_EQ(loop.level(), 2u);
  look.changed = true;
  loop.look(look, now, {});
  EXPECT_EQ(loop.level(), 0u);
  look.changed = false;
  look.levels = 1;
  for (int i = 0; i < 100; ++i, now += 100ms)
  {
    look.delivered += 10000;
    loop.look(look, now, {});
    EXPECT_EQ(loop.level(), 0u) << "there is no other";
  }
}

TEST(loop, a_download_that_ends_in_a_trial_proves_nothing)
{
  Loop loop;
  Tick now { 1h };
  Look look { .capacity = 3e6, .spare = 5e5, .levels = 3 };
  int i = 0;
  for (; i < 100 && !loop.trying(); ++i, now += 100ms)
  {
    look.delivered += 50'000;
    loop.look(look, now, {});
  }
  ASSERT_TRUE(loop.trying());
  for (i = 0; i < 20; ++i, now += 100ms)
    loop.look(look, now, {});
  EXPECT_FALSE(loop.trying());
  EXPECT_EQ(loop.level(), 0u);
  // The level was not judged: it is tried again as soon as there is something to see.
  for (i = 0; i < 80 && !loop.trying(); ++i, now += 100ms)
  {
    look.delivered += 50'000;
    loop.look(look, now, {});
  }
  EXPECT_TRUE(loop.trying());
}

TEST(loop, does_nothing_while_nothing_is_downloaded)
{
  const Outcome r = run([](std::size_t, double) { return 1000.0; }, 100);
  EXPECT_EQ(r.loop.trials(), 0u);
}

TEST(loop, begins_where_it_is_told_to)
{
  const Outcome r = run([](std::size_t level, double) { return level == 2 ? 1e6 : 4e5; }, 60,
                        { .capacity = 3e6, .spare = 5e5, .first = 2, .levels = 4 });
  EXPECT_EQ(r.loop.level(), 2u);
  EXPECT_GT(r.at_level[2], 45);
}

TEST(loop, a_link_that_would_halve_the_better_one_is_not_tried)
{
  // 1.5 MB/s by an uplink; with packets taking turns both links would bring 2 x 0.43 MB/s.
  const Outcome r = run([](std::size_t level, double) { return level == 0 ? 1.5e6 : 8e5; }, 120);
  EXPECT_EQ(r.loop.trials(), 0u);
  const Outcome needed = run([](std::size_t level, double) { return level == 0 ? 4e5 : 8e5; }, 120);
  EXPECT_GT(needed.at_level[1] + needed.at_level[2], 90);
}

TEST(loop, a_part_of_a_bottleneck_is_waited_for)
{
  // As in the lab with six others at the better one's uplink: 3 Mb/s at first, 7 in the end, 5 with both.
  const Model model = [](std::size_t level, double at)
  { return level == 0 ? std::min(3.4e5 + 6e4 * at, 8.7e5) : 6.4e5; };
  const Outcome r = run(model, 30, { .capacity = 2.9e6, .spare = 4.5e5, .levels = 3 });
  EXPECT_EQ(r.loop.trials(), 0u);
  EXPECT_NEAR(r.at_level[0], 30, 0.2);
  // What brings little is not waited for.
  const Model little = [](std::size_t level, double) { return level == 0 ? 1e5 : 5e5; };
  EXPECT_LT(run(little, 30, { .capacity = 2.9e6, .spare = 4.5e5, .levels = 3 }).at_level[0], 5);
}

TEST(loop, full_air_is_not_taken_from_others)
{
  // Somebody else uses what we leave; more links would bring more to us, at his cost.
  const Model greedy = [](std::size_t level, double) { return level == 0 ? 5e5 : level == 1 ? 7e5 : 9e5; };
  const Outcome blind = run(greedy, 60, { .capacity = 3e6, .spare = 2e6, .levels = 3 });
  EXPECT_GT(blind.at_level[2], 30) << "without a survey nobody knows";
  const Outcome sees = run(greedy, 60, { .capacity = 3e6, .spare = 2e6, .busy = 0.95, .levels = 3 });
  EXPECT_EQ(sees.loop.level(), 0u);
  EXPECT_EQ(sees.loop.trials(), 0u);
  // 802.11a that never rests shows 0.77 (measured in the lab): the rest is spaces between frames and contention.
  const Outcome short_frames =
      run(greedy, 60, { .capacity = 3e6, .spare = 2e6, .busy = 0.77, .first = 2, .levels = 3 });
  EXPECT_EQ(short_frames.loop.level(), 0u);
  // Others come while we use all: the next look at the good links alone shows it.
  const Outcome later = run(greedy, 60, { .capacity = 3e6, .spare = 2e6, .busy = 0.95, .first = 2, .levels = 3 });
  EXPECT_EQ(later.loop.level(), 0u);
  EXPECT_LT(later.at_level[2], 10);
  // Idle air is there to be used.
  const Outcome idle = run(greedy, 60, { .capacity = 3e6, .spare = 2e6, .busy = 0.2, .levels = 3 });
  EXPECT_GT(idle.at_level[2], 30);
}

TEST(loop, climbs_one_link_at_a_time_and_no_further_than_it_pays)
{
  const Outcome r =
      run([](std::size_t level, double) { return 2e5 + 1e5 * std::min<double>(static_cast<double>(level), 4); }, 200,
          { .capacity = 3e6, .spare = 5e5, .levels = 6 });
  EXPECT_EQ(r.loop.level(), 4u);
}

} // namespace
} // namespace tandem::ecn
