// What is made of what drivers say of the card, and of what they do not.
#include "src/association/card.h"
#include "tests/unit/feeder/played_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>

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

} // namespace
} // namespace tandem::association
