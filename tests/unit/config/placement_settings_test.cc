#include "src/daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{
namespace
{

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

ConfigResult read(const std::string& lines)
{
  return parse_config("[placement]\n" + lines + "\n", "t.toml");
}

TEST(PlacementSettings, are_off_and_safe_by_default)
{
  const Config::Placement placement {};
  EXPECT_FALSE(placement.enabled);
  EXPECT_FALSE(placement.links);
  EXPECT_THAT(placement.shares, IsEmpty());
  EXPECT_TRUE(placement.by_site);
  EXPECT_EQ(Config::Placement::mark_mask & Config {}.daemon.mark_mask, 0u);
}

TEST(PlacementSettings, are_read)
{
  const auto [config, wrong] =
      read("enabled = true\nlinks = [\"wifi=0.6\", \"cell=0.4\"]\nspread = [443, \"198.51.100.0/24\"]\n"
           "exclude = [\"2001:db8::/32\", 22]\nshort_ports = []");
  ASSERT_THAT(wrong, IsEmpty()) << wrong.front().text();
  const Config::Placement& placement = config.placement;
  EXPECT_TRUE(placement.enabled);
  EXPECT_THAT(placement.shares, ElementsAre(Pair(Link::wifi, 0.6), Pair(Link::cell, 0.4)));
  EXPECT_TRUE(placement.by_site);
  EXPECT_THAT(placement.spread_to, SizeIs(1));
  EXPECT_THAT(placement.spread_ports, ElementsAre(443));
  EXPECT_TRUE(placement.exclude_to.front().address.v6);
  EXPECT_THAT(placement.exclude_ports, ElementsAre(22));
  EXPECT_THAT(placement.short_ports, IsEmpty());
  EXPECT_FALSE(read("spread = \"all\"").config.placement.by_site);
  const Config::Placement named = read("links = [\"wifi\", \"wifi2\", \"cell\"]").config.placement;
  EXPECT_THAT(named.links.value(), ElementsAre(Link::wifi, wifi_link(1), Link::cell));
  EXPECT_THAT(named.shares, IsEmpty());
}

TEST(PlacementSettings, shares_sum_to_one_within_rounding)
{
  for (const char* fine : { "\"auto\"", "[\"wifi=1\"]", "[\"wifi=0.333\", \"wifi2=0.333\", \"wifi3=0.333\"]",
                            "[\"wifi=0\", \"wifi8=1.0\"]", "[\"wifi\"]" })
    EXPECT_THAT(read("links = " + std::string { fine }).complaints, IsEmpty()) << fine;
  for (const char* bad :
       { "[]", "\"wifi\"", "[\"wifi=0.5\"]", "[\"wifi=0.6\", \"wifi2=0.6\"]", "[\"wifi=1.2\", \"wifi2=-0.2\"]",
         "[\"wifi=0.5\", \"wifi=0.5\"]", "[\"wifi=0.5\", \"wifi9=0.5\"]", "[\"other=1\"]", "[\"wlan0=1\"]",
         "[\"eth0\"]", "[\"wifi=\"]", "[\"wifi=nan\"]", "[\"wifi=1x\"]", "[1]", "[\"=1\"]", "[\"wifi=1\", \"wifi2\"]",
         "[\"wifi\", \"wifi\"]" })
  {
    const ConfigResult result = read("links = " + std::string { bad });
    ASSERT_THAT(result.complaints, SizeIs(1)) << bad;
    EXPECT_THAT(result.complaints.front().text(), HasSubstr("t.toml:2: placement.links = "));
    EXPECT_THAT(result.complaints.front().text(), HasSubstr("none below 0, which sum to 1"));
  }
}

TEST(PlacementSettings, other_values_are_refused_with_their_place)
{
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>> {
           { "spread = \"some\"",
             R"(t.toml:2: placement.spread = "some": "all", or a list of at most 256 networks and ports)" },
           { "spread = [0]", "t.toml:2: placement.spread" },
           { "exclude = [\"example.org\"]", "t.toml:2: placement.exclude" },
           { "exclude = [\"22\"]", "t.toml:2: placement.exclude" },
           { "short_ports = [0]", "t.toml:2: placement.short_ports" },
           { "excluded = []", "did you mean exclude?" },
           { "enabled = true\n[daemon]\nmark_mask = 0xe000000",
             "t.toml:2: placement.enabled: a daemon.mark_mask without bits of 0x0f000000 is needed" } })
  {
    const ConfigResult result = read(line);
    ASSERT_THAT(result.complaints, SizeIs(1)) << line;
    EXPECT_THAT(result.complaints.front().text(), HasSubstr(words));
  }
}

TEST(PlacementSettings, the_command_line_takes_lists_with_commas)
{
  Config config {};
  EXPECT_FALSE(override_setting(config, "placement.links", "wifi=0.6,wifi2=0.4"));
  EXPECT_THAT(config.placement.shares, ElementsAre(Pair(Link::wifi, 0.6), Pair(wifi_link(1), 0.4)));
  EXPECT_TRUE(override_setting(config, "placement.links", "wifi=0.6"));
  EXPECT_THAT(config.placement.shares, SizeIs(2)) << "as it was";
  EXPECT_FALSE(override_setting(config, "placement.exclude", "198.51.100.0/24,22"));
  EXPECT_THAT(config.placement.exclude_ports, ElementsAre(22));
  EXPECT_THAT(config.placement.exclude_to, SizeIs(1));
}

} // namespace
} // namespace tandem::daemon
