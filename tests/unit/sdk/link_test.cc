#include <tandem/link.h>

#include <gtest/gtest.h>

#include <set>

namespace tandem
{
namespace
{

TEST(Links, EachHasItsRoleAndAName)
{
  EXPECT_EQ(role(Link::wifi), LinkRole::wifi);
  EXPECT_EQ(role(Link::cell), LinkRole::cell);
  EXPECT_EQ(role(Link::other), LinkRole::other);
  EXPECT_EQ(name(Link::wifi), "wifi");
  EXPECT_EQ(name(Link::cell), "cell");
  EXPECT_EQ(name(Link::other), "other");
  std::set<std::string_view> names {};
  for (const Link link : all_links)
    EXPECT_TRUE(names.insert(name(link)).second) << name(link);
  EXPECT_EQ(names.size(), link_count);
}

TEST(Links, WiFiLinksCountFromTheOneThatDownloadsArriveOn)
{
  EXPECT_EQ(wifi_link(0), Link::wifi);
  EXPECT_EQ(name(wifi_link(1)), "wifi2");
  EXPECT_EQ(name(wifi_link(7)), "wifi8");
  std::size_t found = 0;
  for (std::size_t number = 0; number < most_wifi; ++number)
  {
    const Link link = wifi_link(number);
    EXPECT_EQ(wifi_number(link), number);
    EXPECT_EQ(role(link), LinkRole::wifi);
    EXPECT_LT(static_cast<std::size_t>(link), link_count);
  }
  for (const Link link : all_links)
    found += role(link) == LinkRole::wifi ? 1 : 0;
  EXPECT_EQ(found, most_wifi);
}

TEST(Links, ANumberThatIsNoLinkIsLeftAlone)
{
  EXPECT_EQ(role(static_cast<Link>(link_count)), LinkRole::other);
  EXPECT_EQ(name(static_cast<Link>(link_count)), "?");
}

} // namespace
} // namespace tandem
