#include "src/association/channel_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

constexpr unsigned first = 2412, second = 5180;

// A card that carries out every order after `cost`, and what its channels bring while it is present there.
class Turns : public testing::Test
{
protected:
  // Goes on for `span`, a millisecond at a time.
  void run(ChannelTurns& turns, Duration span)
  {
    for (const Tick end = now + span; now < end; now += 1ms)
    {
      if (now >= step.next || again) look(turns);
      for (ChannelTurns::Channel& one : channels)
        if (present.contains(one.frequency))
          one.bytes += static_cast<std::uint64_t>(rates[one.frequency] / 1000 / (shared ? present.size() : 1));
      for (const auto& [frequency, since] : present)
        there[frequency] += 1ms;
    }
  }
  void look(ChannelTurns& turns)
  {
    again = false;
    step = turns.look(channels, now);
    for (const ChannelTurns::Order& order : step.orders)
    {
      orders.push_back(order);
      if (order.present)
        present[order.frequency] = now;
      else
        present.erase(order.frequency);
      turns.carried_out(order, { now + cost, problem });
    }
  }

  Tick now { 100s };
  std::vector<ChannelTurns::Channel> channels { { first, 0 }, { second, 0 } };
  std::map<unsigned, double> rates { { first, 1e6 }, { second, 2e6 } }; // bytes/s
  std::map<unsigned, Tick> present { { first, now }, { second, now } };
  std::map<unsigned, Duration> there {};
  std::vector<ChannelTurns::Order> orders {};
  ChannelTurns::Step step {};
  Duration cost {};
  std::string problem {};
  bool again = true;
  bool shared = false; // the card divides its time among the channels where it is present
};

TEST_F(Turns, in_slots_each_channel_gets_its_own_and_nobody_two)
{
  ChannelTurns turns { false };
  run(turns, 1s);
  EXPECT_EQ(turns.why(), "comparing channels");
  EXPECT_NEAR(milliseconds(there[first]), 500, 10);
  EXPECT_NEAR(milliseconds(there[second]), 500, 10);
  EXPECT_TRUE(step.backup.empty());
  // The first one was everywhere; from then on one goes before the other comes, at the same time.
  ASSERT_GE(orders.size(), 5u);
  EXPECT_EQ(orders[0].frequency, second);
  for (std::size_t i = 1; i + 1 < orders.size(); i += 2)
  {
    EXPECT_FALSE(orders[i].present);
    EXPECT_TRUE(orders[i + 1].present);
    EXPECT_NE(orders[i].frequency, orders[i + 1].frequency);
    EXPECT_EQ(orders[i].due, orders[i + 1].due);
    EXPECT_EQ((orders[i].due - Tick { 100s }) % 100ms, 0ms) << "on the clock, however late the card was";
  }
}

TEST_F(Turns, after_the_comparison_the_card_stays_where_it_gets_most)
{
  ChannelTurns turns { false };
  run(turns, 6s);
  EXPECT_EQ(turns.why(), "staying on the best channel");
  EXPECT_EQ(turns.best(), second);
  EXPECT_EQ(step.backup, std::set<unsigned> { first });
  EXPECT_EQ(present.size(), 1u);
  EXPECT_TRUE(present.contains(second));
  const std::size_t before = orders.size();
  run(turns, 5s);
  EXPECT_EQ(orders.size(), before) << "no switch, no cost";
}

TEST_F(Turns, another_channel_that_has_become_better_is_found)
{
  ChannelTurns turns { false };
  run(turns, 6s);
  rates[second] = 2e5;
  run(turns, 8s);
  EXPECT_EQ(turns.best(), first);
  EXPECT_EQ(step.backup, std::set<unsigned> { second });
}

TEST_F(Turns, a_card_that_shares_its_time_is_present_everywhere_while_it_compares)
{
  ChannelTurns turns { true };
  shared = true;
  run(turns, 1s);
  EXPECT_TRUE(orders.empty());
  EXPECT_TRUE(step.backup.empty());
  run(turns, 6s);
  EXPECT_EQ(turns.why(), "staying on the best channel");
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].frequency, first);
  EXPECT_FALSE(orders[0].present);
  EXPECT_EQ(step.backup, std::set<unsigned> { first });
  run(turns, 20s);
  ASSERT_GE(orders.size(), 2u) << "it compares again";
  EXPECT_TRUE(orders[1].present);
}

TEST_F(Turns, while_nothing_is_downloaded_nothing_is_learnt_and_little_looked_at)
{
  ChannelTurns turns { true };
  shared = true;
  rates = {};
  run(turns, 10s);
  EXPECT_EQ(turns.why(), "nothing is downloaded");
  EXPECT_EQ(turns.best(), 0u);
  EXPECT_TRUE(orders.empty());
  EXPECT_GE(step.next - now, 0ms);
  EXPECT_EQ(turns.look(channels, step.next).next - step.next, ChannelTurns::idle_cycle);
}

TEST_F(Turns, late_and_failed_orders_are_counted)
{
  ChannelTurns turns { false };
  cost = 7ms;
  run(turns, 1s);
  EXPECT_GT(turns.counters().orders, 10u);
  EXPECT_EQ(turns.counters().late, turns.counters().orders);
  EXPECT_EQ(turns.counters().failed, 0u);
  EXPECT_GE(turns.counters().longest, 7ms);
}

TEST_F(Turns, a_card_that_does_not_obey_is_left_alone_and_the_subflows_take_turns)
{
  ChannelTurns turns { false };
  problem = "power save of wlan0: Operation not supported";
  run(turns, 1s);
  EXPECT_EQ(turns.problem(), problem);
  EXPECT_EQ(turns.counters().failed, turns.counters().orders);
  EXPECT_LE(orders.size(), ChannelTurns::most_failures + 1) << "and one more, to be present again";
  run(turns, 10s);
  EXPECT_LE(orders.size(), ChannelTurns::most_failures + 1);
  EXPECT_EQ(present.size(), 2u);
  EXPECT_EQ(step.backup, std::set<unsigned> { first });
}

TEST_F(Turns, one_that_fails_now_and_then_is_forgiven)
{
  ChannelTurns turns { false };
  for (int i = 0; i < 20; ++i)
  {
    problem = i % 2 ? "busy" : "";
    run(turns, 100ms);
  }
  EXPECT_GT(turns.counters().failed, 5u);
  EXPECT_EQ(turns.problem(), "");
}

TEST_F(Turns, on_one_channel_everything_is_present_and_nothing_a_backup)
{
  ChannelTurns turns { false };
  run(turns, 6s);
  channels.erase(channels.begin() + 1); // the better one, where the card stays
  look(turns);
  EXPECT_EQ(step.next, Tick::max());
  EXPECT_TRUE(step.backup.empty());
  EXPECT_TRUE(present.contains(first));
  EXPECT_EQ(turns.why(), "");
  channels.clear();
  EXPECT_TRUE(turns.look(channels, now).orders.empty());
}

TEST_F(Turns, other_channels_begin_anew)
{
  ChannelTurns turns { true };
  shared = true;
  run(turns, 6s);
  channels[0] = { 2462, 0 };
  present[2462] = now;
  rates[2462] = 4e6;
  again = true;
  run(turns, 500ms);
  EXPECT_EQ(turns.why(), "comparing channels");
  EXPECT_TRUE(step.backup.empty());
  run(turns, 6s);
  EXPECT_EQ(turns.best(), 2462u);
}

// A counter that goes back, as of an interface that was made anew, and a look that comes much too late.
TEST_F(Turns, what_cannot_be_does_no_harm)
{
  ChannelTurns turns { false };
  run(turns, 1s);
  channels[0].bytes = 0;
  now += 90s;
  look(turns);
  EXPECT_LE(step.next - now, longest_cycle);
  EXPECT_GT(step.next, now);
  run(turns, 8s);
  EXPECT_EQ(turns.best(), second);
}

} // namespace
} // namespace tandem::association
