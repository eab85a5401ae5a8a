#include "src/association/roamer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::association
{
namespace
{

using namespace tandem::literals;
using namespace std::chrono_literals;
using testing::HasSubstr;

Mac ap(std::uint8_t number)
{
  return { 2, 0, 0, 0, 0, number };
}

// A card that goes where it is told, 400 ms later, unless somebody says otherwise.
class Roaming : public testing::Test
{
protected:
  Roaming()
  {
    seen.now = Tick { 1000s };
    seen.wanted = true;
    seen.interface = "wlan0";
    seen.state = "COMPLETED";
    seen.own = ap(1);
    seen.networks = { "home" };
    hear(1, -80);
  }
  Heard& hear(std::uint8_t number, float signal, const std::string& ssid = "home")
  {
    std::erase_if(seen.heard, [&](const Heard& one) { return one.ap == ap(number); });
    seen.heard.push_back({ ap(number), ssid, 2437, signal, Duration { 0 } });
    return seen.heard.back();
  }
  // Looks every 100 ms.
  void run(Duration span)
  {
    for (const Tick end = seen.now + span; seen.now < end; seen.now += 100ms)
    {
      change();
      if (going && seen.now - asked.back().at >= 400ms)
      {
        if (goes) seen.own = asked.back().to;
        if (goes && !others.empty())
        {
          seen.links = others;
          seen.own = *others.begin();
        }
        seen.state = "COMPLETED";
        going = false;
      }
      const Roamer::Step step = roamer.look(seen);
      if (step.announce && unwanted.contains(*step.announce))
        roamer.unwanted("not for this access point", seen.now);
      else if (step.announce)
        announced.push_back({ seen.now, *step.announce });
      if (step.arrived) arrived.push_back(seen.now);
      if (step.problem) problems.push_back(step.said);
      if (!step.ask) continue;
      asked.push_back({ seen.now, *step.ask });
      if (!refusal.empty())
        roamer.refused(refusal, seen.now);
      else
        going = true, seen.state = "AUTHENTICATING";
    }
  }
  std::string why_not(Duration span = 2s)
  {
    run(span);
    EXPECT_TRUE(asked.empty() && announced.empty());
    EXPECT_EQ(roamer.counters().asked, 0u);
    return roamer.last();
  }

  struct At
  {
    Tick at {};
    Mac to {};
  };
  Roamer roamer {};
  Roamer::Seen seen {};
  std::vector<At> asked {}, announced {};
  std::vector<Tick> arrived {};
  std::vector<std::string> problems {};
  bool going = false, goes = true;
  std::string refusal {};
  std::set<Mac> unwanted {}; // by the user's network
  std::set<Mac> others {};   // links of an association with several
  std::function<void()> change = [] {};
};

TEST_F(Roaming, goes_to_the_strongest_of_its_network_once_modules_are_ready)
{
  hear(2, -65);
  hear(3, -60);
  hear(4, -40, "another network");
  run(2s);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].to, ap(3));
  ASSERT_EQ(announced.size(), 1u);
  EXPECT_EQ(announced[0].to, ap(3));
  EXPECT_EQ(asked[0].at - announced[0].at, Roamer::ready_for);
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_LE(arrived[0] - asked[0].at, 500ms);
  EXPECT_EQ(roamer.counters().moved, 1u);
  EXPECT_EQ(roamer.last(), "roamed to 02:00:00:00:00:03");
  EXPECT_TRUE(problems.empty());
}

TEST_F(Roaming, nothing_is_asked_that_nobody_wants)
{
  hear(2, -60);
  seen.wanted = false;
  EXPECT_EQ(why_not(), "");
  EXPECT_FALSE(roamer.busy());
}

TEST_F(Roaming, what_is_not_wanted_any_more_is_not_asked_although_it_was_announced)
{
  hear(2, -60);
  run(200ms);
  ASSERT_EQ(announced.size(), 1u);
  seen.wanted = false;
  run(2s);
  EXPECT_TRUE(asked.empty());
  EXPECT_FALSE(roamer.busy());
}

TEST_F(Roaming, leaves_neither_its_network_nor_what_is_as_good)
{
  hear(4, -40, "another network");
  EXPECT_THAT(why_not(), HasSubstr("no other access point of this network was heard"));
  hear(2, -76);
  EXPECT_THAT(why_not(), HasSubstr("5 dB stronger"));
  hear(2, -60).age = 16s;
  EXPECT_THAT(why_not(), HasSubstr("heard lately"));
  hear(2, -60).signal.reset();
  EXPECT_THAT(why_not(), HasSubstr("heard lately"));
  // As the driver counts it rather than as it was heard long ago.
  hear(2, -60);
  seen.signal = -62;
  EXPECT_THAT(why_not(), HasSubstr("5 dB stronger"));
}

TEST_F(Roaming, a_network_that_is_excluded_or_disabled_is_left_alone)
{
  hear(2, -60);
  seen.networks = { "somewhere" };
  EXPECT_THAT(why_not(), HasSubstr("excluded"));
  EXPECT_EQ(problems.size(), 1u);
}

TEST_F(Roaming, a_network_without_a_name_is_left_alone)
{
  hear(1, -80, "");
  hear(2, -60, "");
  EXPECT_THAT(why_not(), HasSubstr("name"));
}

TEST_F(Roaming, never_while_wpa_supplicant_is_at_it)
{
  hear(2, -60);
  for (const char* state : { "AUTHENTICATING", "ASSOCIATING", "4WAY_HANDSHAKE", "GROUP_HANDSHAKE", "SCANNING" })
  {
    seen.state = state;
    EXPECT_THAT(why_not(), HasSubstr("busy"));
  }
  seen.state.clear();
  EXPECT_THAT(why_not(), HasSubstr("does not answer"));
  seen.state = "COMPLETED";
  run(200ms);
  seen.state = "4WAY_HANDSHAKE"; // after the announcement
  run(2s);
  EXPECT_TRUE(asked.empty());
  seen.own.reset();
  run(2s);
  EXPECT_TRUE(asked.empty());
}

TEST_F(Roaming, without_wpa_supplicant_it_is_said_once)
{
  hear(2, -60);
  seen.problem = "wpa_supplicant has no control socket";
  EXPECT_THAT(why_not(60s), HasSubstr("no control socket"));
  EXPECT_EQ(problems.size(), 1u);
  EXPECT_EQ(roamer.counters().stayed, 1u);
  for (int i = 0; i < 5; ++i)
  {
    seen.wanted = i % 2 != 0;
    run(5s);
  }
  EXPECT_EQ(problems.size(), 1u);
  EXPECT_TRUE(asked.empty());
}

TEST_F(Roaming, virtual_stations_keep_the_channel)
{
  hear(2, -60).frequency = 2412;
  seen.stations = true;
  EXPECT_THAT(why_not(), HasSubstr("another channel"));
  seen.stations = false;
  run(2s);
  EXPECT_EQ(asked.size(), 1u);
}

// A module that always wants it, and signals that always say that the grass is greener on the other side.
TEST_F(Roaming, does_not_go_to_and_fro)
{
  change = [this]
  {
    const bool first = seen.own == ap(1);
    hear(1, first ? -80 : -50);
    hear(2, first ? -50 : -80);
    seen.signal = -80;
  };
  run(3600s);
  ASSERT_GT(asked.size(), 1u);
  for (std::size_t i = 1; i < asked.size(); ++i)
    EXPECT_GE(asked[i].at - asked[i - 1].at, Roamer::not_back);
  // None made it better, so it rests for ever longer.
  EXPECT_EQ(roamer.counters().worse, roamer.counters().moved);
  EXPECT_LE(asked.size(), 12u);
}

TEST_F(Roaming, the_way_back_is_closed_for_a_minute_whoever_moved_it)
{
  hear(2, -60);
  run(5s);
  ASSERT_EQ(seen.own, ap(2));
  hear(1, -40);
  hear(2, -80);
  seen.signal.reset();
  run(50s);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_THAT(roamer.last(), HasSubstr("02:00:00:00:00:01 was left less than a minute ago"));
  run(30s);
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked.back().to, ap(1));
  // wpa_supplicant itself goes to a third one.
  hear(3, -80);
  run(20s);
  seen.own = ap(3);
  hear(1, -40);
  run(40s);
  EXPECT_EQ(asked.size(), 2u) << "each of the two others was left lately";
  run(30s);
  EXPECT_EQ(asked.size(), 3u);
}

TEST_F(Roaming, no_two_in_ten_seconds)
{
  hear(2, -60);
  run(3s);
  hear(3, -30);
  seen.signal = -60;
  run(30s);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_GE(asked[1].at - asked[0].at, Roamer::apart);
}

TEST_F(Roaming, one_that_does_not_let_us_in_is_tried_ever_more_seldom)
{
  hear(2, -60);
  goes = false;
  run(3600s);
  ASSERT_GT(asked.size(), 3u);
  EXPECT_GE(asked[1].at - asked[0].at, 30s);
  EXPECT_GE(asked[2].at - asked[1].at, 60s);
  EXPECT_GE(asked[3].at - asked[2].at, 120s);
  EXPECT_LE(asked.size(), 12u);
  EXPECT_EQ(roamer.counters().failed, asked.size());
  EXPECT_THAT(problems.back(), HasSubstr("the card stays at 02:00:00:00:00:01"));
  EXPECT_TRUE(arrived.empty());
}

TEST_F(Roaming, what_wpa_supplicant_refuses_rests_as_well)
{
  hear(2, -60);
  refusal = "wpa_supplicant refuses";
  run(29s);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(roamer.counters().failed, 1u);
  EXPECT_THAT(roamer.last(), HasSubstr("rests: a roam failed"));
  EXPECT_FALSE(roamer.busy());
}

// bssid_ignore, or freq_list.
TEST_F(Roaming, next_to_one_that_the_users_network_forbids_the_next_is_chosen)
{
  hear(2, -65);
  hear(3, -60);
  unwanted = { ap(3) };
  run(3s);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].to, ap(2));
  ASSERT_EQ(announced.size(), 1u) << "no module gets ready for the other";
  EXPECT_EQ(announced[0].to, ap(2));
  EXPECT_EQ(roamer.counters().failed, 0u);
  EXPECT_TRUE(problems.empty());
}

TEST_F(Roaming, who_is_forbidden_is_said)
{
  hear(3, -60);
  unwanted = { ap(3) };
  EXPECT_THAT(why_not(20s), HasSubstr("02:00:00:00:00:03 rests: not for this access point"));
  EXPECT_FALSE(roamer.busy());
}

// By several links (802.11be) the card is at one of them, and not always at the one that was asked for.
TEST_F(Roaming, an_association_of_several_links_is_at_each_of_them)
{
  seen.links = { ap(1), ap(7) };
  hear(2, -70);
  hear(3, -60);
  others = { ap(2), ap(3) };
  run(8s);
  EXPECT_EQ(roamer.counters().failed, 0u) << roamer.last();
  EXPECT_EQ(roamer.counters().moved, 1u);
  EXPECT_EQ(arrived.size(), 1u);
  EXPECT_EQ(roamer.counters().worse, 0u);
  // Nor back by the other link of where it came from.
  hear(7, -40);
  seen.signal = -60;
  run(20s);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_THAT(roamer.last(), HasSubstr("02:00:00:00:00:07 was left less than a minute ago"));
}

TEST_F(Roaming, one_that_hangs_is_given_up)
{
  hear(2, -60);
  change = [this]
  {
    going = false;
    if (!asked.empty()) seen.own.reset(), seen.state = "ASSOCIATING";
  };
  run(15s);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(roamer.counters().failed, 1u);
  EXPECT_THAT(problems.back(), HasSubstr("ASSOCIATING"));
}

} // namespace
} // namespace tandem::association
