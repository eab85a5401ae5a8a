// What is made of what drivers say of the card, and of what they do not; and the stations that follow.
#include "src/association/associator.h"
#include "src/association/card.h"
#include "src/association/dhcp.h"
#include "src/kernel/clock.h"
#include "src/kernel/interface_setting.h"
#include "tests/unit/association/played_supplicant.h"
#include "tests/unit/feeder/played_kernel.h"
#include "tests/unit/kernel/own_namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

namespace tandem::association
{
namespace
{

using feeder::Kernel;

constexpr Mac ap { 2, 0, 0, 0, 0, 1 }, other { 2, 0, 0, 0, 0, 2 }, third { 2, 0, 0, 0, 0, 3 };

class CardView : public testing::Test
{
protected:
  CardView()
  {
    feeder::playing = &played;
    played.lists[NL80211_CMD_GET_INTERFACE] = { { feeder::interface(NL80211_IFTYPE_STATION) } };
    played.lists[NL80211_CMD_GET_STATION] = { { feeder::station(ap) } };
  }
  std::vector<Mac> heard(const Card::View& view) const
  {
    std::vector<Mac> all {};
    for (const Heard& one : view.heard)
      all.push_back(one.ap);
    return all;
  }

  Kernel played {};
  Card card {};
};

TEST_F(CardView, the_links_of_one_association_are_one_access_point)
{
  played.lists[NL80211_CMD_GET_SCAN] = { { feeder::heard(ap, true), feeder::heard(other, true),
                                           feeder::heard(third, false) } };
  const auto view = card.look("lo");
  ASSERT_TRUE(view) << card.problem();
  EXPECT_EQ(view->ap, ap);
  EXPECT_EQ(heard(*view), (std::vector { ap, third })) << "a roam to the same access point is an outage for nothing";
}

// Nor is what the kernel lists for an association of several links (802.11be) the address of one of them.
TEST_F(CardView, an_association_of_several_links_is_at_the_first_of_them)
{
  played.lists[NL80211_CMD_GET_STATION] = { { feeder::station({ 2, 0, 0, 0, 9, 9 }) } };
  played.lists[NL80211_CMD_GET_SCAN] = { { feeder::heard(other, true), feeder::heard(ap, true),
                                           feeder::heard(third, false) } };
  const auto view = card.look("lo");
  ASSERT_TRUE(view) << card.problem();
  EXPECT_EQ(view->ap, std::min(ap, other));
  EXPECT_EQ(heard(*view), (std::vector { std::min(ap, other), third }));
  // One that has just moved is where the kernel says, not where the scan saw it.
  played.lists[NL80211_CMD_GET_SCAN] = { { feeder::heard(ap, true) } };
  EXPECT_EQ(card.look("lo")->ap, (Mac { 2, 0, 0, 0, 9, 9 }));
}

TEST_F(CardView, a_driver_that_lists_no_stations_has_told_the_access_point_with_the_scan)
{
  played.lists[NL80211_CMD_GET_STATION] = { {}, EOPNOTSUPP };
  played.lists[NL80211_CMD_GET_SCAN] = { { feeder::heard(other, false), feeder::heard(ap, true) } };
  const auto view = card.look("lo");
  ASSERT_TRUE(view) << card.problem();
  EXPECT_EQ(view->ap, ap);
  played.lists[NL80211_CMD_GET_STATION] = {};
  EXPECT_EQ(card.look("lo")->ap, std::nullopt) << "a list without one is an answer";
}

TEST_F(CardView, a_list_that_changed_while_it_was_read_is_better_than_none)
{
  played.lists[NL80211_CMD_GET_SCAN] = { { feeder::heard(ap, true) }, EAGAIN };
  const auto view = card.look("lo");
  ASSERT_TRUE(view) << card.problem();
  EXPECT_EQ(heard(*view), std::vector { ap });
}

TEST_F(CardView, a_hotspot_is_at_no_access_point)
{
  played.lists[NL80211_CMD_GET_INTERFACE] = { { feeder::interface(NL80211_IFTYPE_AP) } };
  EXPECT_FALSE(card.look("lo"));
  EXPECT_NE(card.problem().find("lo is no station now"), std::string::npos) << card.problem();
}

// A driver that had no time for it: what the next one would be called is there, and is nobody else's.
TEST_F(CardView, a_station_that_could_not_be_removed_is_tandems_all_the_same)
{
  if (!kernel::test::in_namespace_of_ones_own() || !kernel::test::done("ip link set lo name tandem-sta0"))
    GTEST_SKIP() << "no network namespace of one's own";
  EXPECT_NE(card.make({}, 0).find("is not Tandem's"), std::string::npos) << "this one is somebody's";
  played.lists[NL80211_CMD_DEL_INTERFACE] = { {}, EBUSY };
  card.remove("tandem-sta0");
  const std::string why = card.make({}, 0);
  EXPECT_NE(why.find("removing"), std::string::npos) << why;
  EXPECT_EQ(played.removed.size(), 2u);
  played.lists[NL80211_CMD_DEL_INTERFACE] = {};
  EXPECT_EQ(card.make({}, 0), "");
  EXPECT_EQ(played.removed.size(), 3u);
  EXPECT_TRUE(kernel::test::done("ip link set tandem-sta0 name lo"));
}

feeder::Bytes offering(const Mac& mac, bool associated)
{
  return feeder::message(NL80211_CMD_NEW_SCAN_RESULTS,
                         [&](nl_msg* m)
                         {
                           const std::array<std::uint8_t, 6> name { 0, 4, 'h', 'o', 'm', 'e' };
                           nlattr* nest = nla_nest_start(m, NL80211_ATTR_BSS);
                           nla_put(m, NL80211_BSS_BSSID, static_cast<int>(mac.size()), mac.data());
                           nla_put_u32(m, NL80211_BSS_FREQUENCY, 2412);
                           nla_put(m, NL80211_BSS_INFORMATION_ELEMENTS, static_cast<int>(name.size()), name.data());
                           nla_put_u32(m, NL80211_BSS_SIGNAL_MBM, static_cast<std::uint32_t>(-5000));
                           if (associated) nla_put_u32(m, NL80211_BSS_STATUS, NL80211_BSS_STATUS_ASSOCIATED);
                           nla_nest_end(m, nest);
                         });
}

// Two stations on one channel.
feeder::Bytes abilities()
{
  return feeder::message(NL80211_CMD_NEW_WIPHY,
                         [](nl_msg* m)
                         {
                           nlattr* all = nla_nest_start(m, NL80211_ATTR_INTERFACE_COMBINATIONS);
                           nlattr* one = nla_nest_start(m, 1);
                           nlattr* most = nla_nest_start(m, NL80211_IFACE_COMB_LIMITS);
                           nlattr* limit = nla_nest_start(m, 1);
                           nla_put_u32(m, NL80211_IFACE_LIMIT_MAX, 2);
                           nlattr* types = nla_nest_start(m, NL80211_IFACE_LIMIT_TYPES);
                           nla_put_flag(m, NL80211_IFTYPE_STATION);
                           for (nlattr* nest : { types, limit, most })
                             nla_nest_end(m, nest);
                           nla_put_u32(m, NL80211_IFACE_COMB_MAXNUM, 2);
                           nla_put_u32(m, NL80211_IFACE_COMB_NUM_CHANNELS, 1);
                           nla_nest_end(m, one);
                           nla_nest_end(m, all);
                         });
}

constexpr const char* add_station = "INTERFACE_ADD tandem-sta0\t\tnl80211\t";
constexpr const char* make_station = "ip link add tandem-sta0 type bridge && ip link set tandem-sta0 up";

// The card's own interface is the loop, of a network namespace of its own.
class Stations : public CardView
{
protected:
  void SetUp() override
  {
    using namespace kernel::test;
    if (!in_namespace_of_ones_own() || !kernel::set_interface("ipv4/conf/lo/arp_ignore", "0")
        || !done(std::string { make_station } + " && ip link del tandem-sta0"))
      GTEST_SKIP() << "no network namespace of one's own";
    played.lists[NL80211_CMD_GET_WIPHY] = { { abilities() } };
    played.lists[NL80211_CMD_GET_SCAN] = { { offering(ap, true), offering(other, false) } };
    for (const std::string list : { "freq_list", "bssid_accept", "bssid_ignore", "bssid_whitelist", "bssid_blacklist" })
      answers["IFNAME=lo GET_NETWORK 0 " + list] = "FAIL\n";
  }
  // Has the card kept at two access points.
  void begin(const Played& supplicant, const std::string& script)
  {
    associator.emplace(
        AssociatorOptions { .supplicant = supplicant.path(), .script = script },
        [] { return Surroundings { .wifi = "lo" }; }, [](bool) {}, [](const std::set<std::string>&) {},
        [this](bool, const std::string& words) { said += words + "\n"; });
    associator->keep({ 2 });
    ASSERT_TRUE(associator->snapshot(5s));
  }

  std::map<std::string, std::string, std::less<>> answers { { "PING", "PONG\n" },
                                                            { "IFNAME=lo PING", "PONG\n" },
                                                            { "INTERFACES", "lo\n" },
                                                            { "IFNAME=lo LIST_NETWORKS",
                                                              "network id / ssid / bssid / flags\n0\thome\tany\t\n" },
                                                            { "IFNAME=lo GET pmf", "FAIL\n" },
                                                            { "IFNAME=lo GET sae_pwe", "FAIL\n" },
                                                            { "IFNAME=tandem-sta0 ADD_NETWORK", "0\n" },
                                                            { "IFNAME=tandem-sta0 STATUS", "wpa_state=COMPLETED\n" } };
  std::string said {}; // by its thread, which has rested since snapshot()
  std::optional<Associator> associator {};
};

TEST_F(Stations, the_card_answers_by_arp_as_before_when_the_first_one_does_not_begin)
{
  answers[add_station] = "FAIL\n";
  const Played supplicant { answers, "OK\n" };
  begin(supplicant, "");
  EXPECT_NE(said.find("does not take tandem-sta0 on"), std::string::npos) << said;
  EXPECT_EQ(kernel::interface_setting("ipv4/conf/lo/arp_ignore"), "0");
  associator.reset();
}

TEST_F(Stations, a_renewal_with_another_address_takes_the_old_one_away)
{
  // As udhcpc: another address each time, for two seconds.
  std::string directory = testing::TempDir() + "stations-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  std::ofstream { directory + "/busybox" } << "#!/bin/sh\necho >> $0.asked\n"
                                              "echo lease ip=192.0.2.$(wc -l < $0.asked) mask=24 router= lease=2\n";
  ASSERT_EQ(::chmod((directory + "/busybox").c_str(), 0700), 0);
  const std::string before = ::getenv("PATH");
  ::setenv("PATH", (directory + ":" + before).c_str(), 1);

  const Played supplicant { answers, "OK\n", "socket",
                            [](const std::string& question)
                            {
                              if (question == add_station) kernel::test::done(make_station);
                            } };
  begin(supplicant, "script");
  const auto addresses = []
  {
    std::vector<std::string> all {};
    for (const Neighbour& one : neighbours("lo"))
      if (one.interface == "tandem-sta0") all.push_back(one.address);
    return all;
  };
  const Tick end = kernel::now() + 10s;
  const auto comes = [&](const std::string& address)
  {
    bool there = false;
    while (!there && kernel::now() < end)
    {
      std::this_thread::sleep_for(20ms);
      const auto told = associator->snapshot(5s);
      there = told && !(*told)["stations"].empty() && (*told)["stations"][0].value("address", "") == address;
    }
    return there;
  };
  EXPECT_TRUE(comes("192.0.2.1")) << said;
  EXPECT_THAT(addresses(), testing::ElementsAre("192.0.2.1"));
  EXPECT_TRUE(comes("192.0.2.2")) << said;
  EXPECT_THAT(addresses(), testing::ElementsAre("192.0.2.2")) << "somebody else may have the other one by now";
  associator.reset();
  ::setenv("PATH", before.c_str(), 1);
  std::filesystem::remove_all(directory);
}

} // namespace
} // namespace tandem::association
