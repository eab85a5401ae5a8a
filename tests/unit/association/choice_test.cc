#include "src/association/choice.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::association
{
namespace
{

using namespace tandem::literals;
using namespace std::chrono_literals;

Mac ap(std::uint8_t number)
{
  return { 2, 0, 0, 0, 0, number };
}

class Choosing : public testing::Test
{
protected:
  Choosing()
  {
    now.now = Tick { 100s };
    now.networks = std::set<std::string> { "home" };
    now.own = ap(1);
    now.interface = "wlan0";
    now.most = 3;
    hear(1, -50);
  }
  Heard& hear(std::uint8_t number, float signal, unsigned frequency = 2437)
  {
    std::erase_if(now.heard, [&](const Heard& one) { return one.ap == ap(number); });
    now.heard.push_back({ ap(number), "home", frequency, signal, Duration { 0 } });
    return now.heard.back();
  }
  void keep(std::uint8_t number, bool associated = true)
  {
    now.stations.push_back({ "sta" + std::to_string(number), ap(number), associated });
  }
  void forget(const std::string& interface)
  {
    std::erase_if(now.stations, [&](const Station& one) { return one.interface == interface; });
  }
  // Looks every second, and does what is chosen; how often a station was made or taken away.
  int run(
      Duration span, const std::function<void()>& change = [] {})
  {
    int moves = 0;
    for (const Tick end = now.now + span; now.now < end; now.now += 1s)
    {
      change();
      const Choice choice = chooser.look(now);
      for (const Choice::Leave& one : choice.leave)
        forget(one.interface);
      if (choice.join) keep((*choice.join)[5]);
      moves += static_cast<int>(choice.leave.size()) + (choice.join ? 1 : 0);
    }
    return moves;
  }
  std::string why(std::uint8_t number)
  {
    for (const Judgement& one : chooser.look(now).all)
      if (one.heard.ap == ap(number)) return one.why;
    return "not listed";
  }
  std::set<std::string> kept() const
  {
    std::set<std::string> all {};
    for (const Station& one : now.stations)
      all.insert(one.interface);
    return all;
  }

  Situation now {};
  Chooser chooser {};
};

TEST_F(Choosing, a_card_that_cannot_be_asked_for_a_moment_loses_no_station)
{
  hear(2, -60);
  keep(2);
  now.seen = false; // a driver that has no time
  now.heard.clear();
  now.own.reset();
  now.networks.reset();
  EXPECT_EQ(run(30s), 0);
  EXPECT_EQ(kept(), (std::set<std::string> { "sta2" }));
  now.seen = true;
  EXPECT_EQ(run(1s), 1) << "it is not associated";
}

TEST_F(Choosing, the_strongest_of_the_channel_are_joined_one_after_the_other_as_far_as_there_is_room)
{
  hear(2, -60);
  hear(3, -55);
  hear(4, -70);
  EXPECT_EQ(chooser.look(now).join, ap(3));
  keep(3, false);
  EXPECT_EQ(chooser.look(now).join, std::nullopt) << "one is being associated";
  now.stations.back().associated = true;
  EXPECT_EQ(chooser.look(now).join, ap(2));
  keep(2);
  EXPECT_EQ(chooser.look(now).join, std::nullopt);
  EXPECT_NE(why(4).find("no room"), std::string::npos);
}

TEST_F(Choosing, each_reason_against_one_is_said)
{
  hear(2, -60).ssid = "cafe";
  hear(3, -60, 2412);
  hear(4, -80);
  hear(5, -60).age = 40s;
  hear(6, -60).signal.reset();
  hear(7, -60).ssid.clear();
  EXPECT_EQ(chooser.look(now).join, std::nullopt);
  EXPECT_NE(why(2).find("no such network"), std::string::npos);
  EXPECT_NE(why(3).find("another channel (wlan0 is on 2437 MHz)"), std::string::npos);
  EXPECT_NE(why(4).find("too weak"), std::string::npos);
  EXPECT_NE(why(5).find("not heard for 40 s"), std::string::npos);
  EXPECT_NE(why(6).find("no signal"), std::string::npos);
  EXPECT_NE(why(7).find("hidden"), std::string::npos);
}

TEST_F(Choosing, the_newest_word_on_an_access_point_counts)
{
  now.heard.push_back({ ap(2), "home", 2437, -60.f, Duration { 8s } });
  now.heard.push_back({ ap(2), "home", 2412, -60.f, Duration { 4s } });
  now.heard.push_back({ ap(2), "home", 2462, -60.f, {} });
  now.heard = newest(now.heard);
  EXPECT_EQ(now.heard.size(), 2u);
  EXPECT_NE(why(2).find("another channel"), std::string::npos);
}

TEST_F(Choosing, a_card_that_cannot_is_not_asked_to)
{
  hear(2, -60);
  now.cannot = "the card can be at one access point only";
  EXPECT_EQ(chooser.look(now).join, std::nullopt);
  EXPECT_EQ(why(2), now.cannot);
}

TEST_F(Choosing, another_channel_is_joined_where_the_card_can_and_shall_and_after_those_of_its_own)
{
  hear(2, -70);
  hear(3, -55, 5180);
  hear(4, -50, 2412);
  now.one_channel = "the card or its driver can be on one channel at a time";
  EXPECT_EQ(why(3), "on another channel (wlan0 is on 2437 MHz): " + now.one_channel);
  EXPECT_EQ(chooser.look(now).join, ap(2));
  now.channels = 2;
  now.most_apart = 3;
  EXPECT_EQ(chooser.look(now).join, ap(2)) << "no turns have to be taken for it";
  keep(2);
  EXPECT_EQ(chooser.look(now).join, ap(4)) << "the strongest";
  keep(4);
  now.most = 4;
  EXPECT_EQ(why(3), "on a channel too many: the card or its driver can be on 2");
  hear(5, -60);
  EXPECT_EQ(why(5), "on several channels the card or its driver can be at 3 access points");
}

TEST_F(Choosing, whoever_does_not_fit_the_channels_any_more_is_left)
{
  now.channels = 2;
  now.most_apart = 3;
  hear(2, -60);
  hear(3, -60, 2412);
  keep(2);
  keep(3);
  EXPECT_TRUE(chooser.look(now).leave.empty());
  now.own = ap(6); // it roamed to a third channel
  hear(6, -50, 5180);
  Choice choice = chooser.look(now);
  ASSERT_EQ(choice.leave.size(), 1u);
  EXPECT_EQ(choice.leave[0].interface, "sta3");
  now.own = ap(1);
  now.channels = 1; // the user wants no others any more
  choice = chooser.look(now);
  ASSERT_EQ(choice.leave.size(), 1u);
  EXPECT_EQ(choice.leave[0].interface, "sta3");
  // One that is not heard any more is where it was.
  now.heard.pop_back();
  std::erase_if(now.heard, [](const Heard& one) { return one.ap == ap(3); });
  EXPECT_TRUE(chooser.look(now).leave.empty()) << "nobody knows";
  now.stations.back().frequency = 2412;
  EXPECT_EQ(chooser.look(now).leave.size(), 1u);
}

TEST_F(Choosing, another_channel_takes_no_place_on_the_own_one)
{
  now.channels = 2;
  now.most_apart = 3;
  now.most = 2;
  hear(2, -70);
  run(2s);
  hear(3, -40, 5180);
  EXPECT_EQ(run(60s), 0);
  EXPECT_NE(why(3).find("on the channel of wlan0"), std::string::npos);
}

TEST_F(Choosing, switched_off_nothing_is_joined_and_all_are_left)
{
  hear(2, -60);
  hear(3, -60);
  keep(2);
  now.most = 0;
  const Choice choice = chooser.look(now);
  EXPECT_EQ(choice.join, std::nullopt);
  ASSERT_EQ(choice.leave.size(), 1u);
  EXPECT_NE(why(3).find("worth it"), std::string::npos);
}

TEST_F(Choosing, the_card_itself_comes_first)
{
  hear(2, -60);
  keep(2);
  now.own.reset();
  EXPECT_EQ(chooser.look(now).leave.size(), 1u) << "it needs the radio to find another one";
  now.own = ap(2);
  EXPECT_EQ(chooser.look(now).leave.size(), 1u) << "it is there itself";
  hear(3, -50, 5180);
  now.own = ap(3);
  EXPECT_EQ(chooser.look(now).leave.size(), 1u) << "it went to another channel";
  now.own = ap(1);
  EXPECT_TRUE(chooser.look(now).leave.empty());
}

TEST_F(Choosing, a_weak_one_stays_for_a_while_and_one_that_was_left_rests)
{
  hear(2, -60);
  EXPECT_EQ(run(3s), 1);
  hear(2, -84);
  EXPECT_EQ(run(4s), 0) << "somebody walked past";
  hear(2, -78);
  EXPECT_EQ(run(60s), 0) << "between the two thresholds nothing changes";
  hear(2, -84);
  EXPECT_EQ(run(7s), 1);
  hear(2, -60);
  EXPECT_EQ(run(20s), 0);
  EXPECT_NE(why(2).find("rests for"), std::string::npos);
  EXPECT_EQ(run(20s), 1);
  EXPECT_EQ(kept(), std::set<std::string> { "sta2" });
}

TEST_F(Choosing, ping_pong_is_bounded)
{
  // At its worst moment for 10 s, at its best for 10 s, for an hour.
  int second = 0;
  const int moves = run(3600s, [&] { hear(2, ++second % 20 < 10 ? -90.f : -60.f); });
  EXPECT_GE(moves, 4);
  // 30, 60, 120, 240 s, then every 8 minutes: twelve times, and as often back.
  EXPECT_LE(moves, 26);
}

TEST_F(Choosing, a_much_stronger_one_takes_the_place_of_the_weakest_once)
{
  now.most = 2;
  hear(2, -70);
  run(2s);
  hear(3, -64);
  EXPECT_EQ(run(60s), 0) << "6 dB are not worth a change";
  hear(3, -60);
  EXPECT_EQ(run(9s), 0);
  run(10s);
  EXPECT_EQ(kept(), std::set<std::string> { "sta3" });
  EXPECT_EQ(run(600s), 0);
}

TEST_F(Choosing, one_that_refuses_is_asked_ever_more_seldom)
{
  hear(2, -50);
  int asked = 0;
  for (const Tick end = now.now + 3600s; now.now < end; now.now += 1s)
    if (chooser.look(now).join)
    {
      ++asked;
      chooser.failed(ap(2), now.now, "it did not answer");
    }
  EXPECT_LE(asked, 13);
  EXPECT_GE(asked, 8);
  EXPECT_NE(why(2).find("it did not answer"), std::string::npos);
}

} // namespace
} // namespace tandem::association
