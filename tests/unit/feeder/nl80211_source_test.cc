// What is made of drivers that tell less than mac80211 does.
#include "src/feeder/sources/nl80211_source.h"
#include "tests/unit/feeder/played_kernel.h"

#include <gtest/gtest.h>

namespace tandem::feeder
{
namespace
{

using namespace std::chrono_literals;

constexpr Mac ap { 2, 0, 0, 0, 0, 1 }, other { 2, 0, 0, 0, 0, 2 };

class Nl80211SourceTest : public testing::Test
{
protected:
  Nl80211SourceTest()
  {
    playing = &played;
    played.lists[NL80211_CMD_GET_INTERFACE] = { { interface(NL80211_IFTYPE_STATION) } };
  }

  // As many readings of the counters; what they said.
  template <class T>
  std::vector<T> read(Nl80211Source& source, int times)
  {
    std::vector<T> said {};
    for (int i = 0; i < times; ++i, now += 100ms)
    {
      reports.clear();
      works = source.receive(now, reports);
      for (const Report& one : reports)
        if (const auto* what = std::get_if<T>(&one.what)) said.push_back(*what);
    }
    return said;
  }

  Kernel played {};
  Tick now { 100s };
  std::vector<Report> reports {};
  bool works = false;
};

TEST_F(Nl80211SourceTest, a_driver_that_lists_no_stations_is_heard_all_the_same)
{
  for (const int error : { EOPNOTSUPP, EIO, EINVAL, EBUSY })
  {
    played.lists[NL80211_CMD_GET_STATION] = { {}, error };
    played.lists[NL80211_CMD_GET_SCAN] = { { heard(ap, true) } };
    Nl80211Source source { "lo" };
    played.opened = 0;
    EXPECT_FALSE(read<Candidate>(source, 30).empty());
    EXPECT_TRUE(works) << "the source has ended";
    EXPECT_EQ(played.opened, 0u);
    EXPECT_NE(source.problem().find("reading the counters"), std::string::npos) << source.problem();
    played.lists[NL80211_CMD_GET_STATION] = { { station(ap) } };
    EXPECT_EQ(read<StationStats>(source, 3).size(), 3u) << "it may be able to later";
    EXPECT_EQ(source.problem(), "");
  }
}

TEST_F(Nl80211SourceTest, an_interface_that_has_gone_ends_it)
{
  played.lists[NL80211_CMD_GET_STATION] = { {}, ENODEV };
  Nl80211Source source { "lo" };
  read<StationStats>(source, 1);
  EXPECT_FALSE(works);
}

// brcmfmac: firmware without a list of stations.
TEST_F(Nl80211SourceTest, who_lists_no_stations_is_asked_about_the_access_point)
{
  played.lists[NL80211_CMD_GET_STATION] = { {}, EOPNOTSUPP };
  played.lists[NL80211_CMD_GET_SCAN] = { { heard(other, false), heard(ap, true) } };
  played.stations[ap] = { { station(ap) } };
  Nl80211Source source { "lo" };
  const auto said = read<StationStats>(source, 3);
  ASSERT_EQ(said.size(), 2u) << "from the first scan result on";
  EXPECT_EQ(said.back().ap, ap);
  EXPECT_EQ(source.problem(), "");

  played.stations.clear();
  EXPECT_TRUE(read<WifiChange>(source, 30).empty()) << "no answer is no end of the association";
  EXPECT_TRUE(works);
}

// brcmfmac asks its firmware each time, and logs that this failed.
TEST_F(Nl80211SourceTest, who_refuses_a_list_is_asked_for_it_once_a_second)
{
  played.lists[NL80211_CMD_GET_SCAN] = { { heard(ap, true) } };
  played.lists[NL80211_CMD_GET_STATION] = { {}, EIO };
  played.stations[ap] = { { station(ap) } };
  Nl80211Source source { "lo" };
  EXPECT_EQ(read<StationStats>(source, 30).size(), 29u) << "its counters come as often as ever";
  EXPECT_EQ(played.listed[NL80211_CMD_GET_STATION], 3u);
  played.lists[NL80211_CMD_GET_STATION] = { { station(ap) } };
  read<StationStats>(source, 30);
  EXPECT_GE(played.listed[NL80211_CMD_GET_STATION], 23u) << "it lists them after all";
}

// NetworkManager's hotspot: the same interface, whose stations are others' laptops.
TEST_F(Nl80211SourceTest, the_stations_of_a_hotspot_are_no_access_points)
{
  played.lists[NL80211_CMD_GET_STATION] = { { station(ap) } };
  Nl80211Source source { "lo" };
  EXPECT_EQ(read<StationStats>(source, 2).size(), 2u);
  played.lists[NL80211_CMD_GET_INTERFACE] = { { interface(NL80211_IFTYPE_AP) } };
  played.lists[NL80211_CMD_GET_STATION] = { { station(other) } };
  played.events = { message(NL80211_CMD_SET_INTERFACE, [](nl_msg*) {}) };
  const auto changes = read<WifiChange>(source, 2);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, WifiChange::Kind::disconnected);
  EXPECT_TRUE(read<StationStats>(source, 3).empty());

  played.lists[NL80211_CMD_GET_INTERFACE] = { { interface(NL80211_IFTYPE_STATION) } };
  played.lists[NL80211_CMD_GET_STATION] = { { station(ap) } };
  played.events = { message(NL80211_CMD_SET_INTERFACE, [](nl_msg*) {}) };
  EXPECT_EQ(read<StationStats>(source, 2).size(), 2u);
}

TEST_F(Nl80211SourceTest, a_list_that_changed_while_it_was_read_is_read_again)
{
  played.lists[NL80211_CMD_GET_SCAN] = { { heard(ap, false) }, EAGAIN };
  Nl80211Source source { "lo" };
  EXPECT_EQ(read<Candidate>(source, 5).size(), 1u);
  played.lists[NL80211_CMD_GET_SCAN] = { { heard(ap, false), heard(other, false) } };
  EXPECT_EQ(read<Candidate>(source, 20).size(), 2u) << "once, a second later";
}

} // namespace
} // namespace tandem::feeder
