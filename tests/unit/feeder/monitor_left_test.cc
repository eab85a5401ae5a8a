#include "src/feeder/sources/monitor_source.h"
#include "tests/unit/feeder/played_kernel.h"

#include <gtest/gtest.h>

namespace tandem::feeder
{
namespace
{

Bytes named(const char* name, std::uint32_t ifindex, std::uint32_t type)
{
  return message(NL80211_CMD_NEW_INTERFACE,
                 [=](nl_msg* m)
                 {
                   nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex);
                   nla_put_string(m, NL80211_ATTR_IFNAME, name);
                   nla_put_u32(m, NL80211_ATTR_WIPHY, 0);
                   nla_put_u32(m, NL80211_ATTR_IFTYPE, type);
                 });
}

// A run with two Wi-Fi links was killed; this one has one, whose name is the first.
TEST(MonitorLeft, what_no_source_would_replace_is_removed_and_nothing_else)
{
  Kernel played {};
  playing = &played;
  played.lists[NL80211_CMD_GET_INTERFACE] = {
    { named("wlan0", 3, NL80211_IFTYPE_STATION), named("tandem-mon0", 4, NL80211_IFTYPE_MONITOR),
      named("tandem-mon1", 5, NL80211_IFTYPE_MONITOR), named("tandem-mon12", 6, NL80211_IFTYPE_MONITOR),
      named("tandem-mon2", 7, NL80211_IFTYPE_STATION), named("tandem-monitor", 8, NL80211_IFTYPE_MONITOR),
      named("tandem-mon", 9, NL80211_IFTYPE_MONITOR), named("mon7", 10, NL80211_IFTYPE_MONITOR) }
  };
  {
    const MonitorName first {};
    ASSERT_EQ(first.text(), "tandem-mon0");
    remove_left_monitors();
    EXPECT_EQ(played.removed, (std::vector<std::uint32_t> { 5, 6 }));
  }
  played.removed.clear();
  remove_left_monitors();
  EXPECT_EQ(played.removed, (std::vector<std::uint32_t> { 4, 5, 6 })) << "without a monitor source";
}

} // namespace
} // namespace tandem::feeder
