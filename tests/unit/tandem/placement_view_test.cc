#include "tools/tandem/placement_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using testing::HasSubstr;

const Style plain {};

TEST(PlacementView, is_nothing_while_it_is_off)
{
  EXPECT_EQ(show_placement(json(), plain), "");
  EXPECT_EQ(show_placement({ { "enabled", false }, { "kept", false } }, plain), "");
  EXPECT_THAT(show_placement({ { "enabled", false }, { "kept", true } }, plain),
              HasSubstr("off; connections placed before"));
}

TEST(PlacementView, says_what_is_placed_where)
{
  const json placement {
    { "enabled", true },
    { "in_force", true },
    { "sites", "keep" },
    { "links",
      { { "wifi", { { "share", 0.65 }, { "connections", 13 }, { "alive", 2 }, { "seen_mbps", 17.26 } } },
        { "wifi2", { { "share", 0 }, { "connections", 7 }, { "alive", 0 }, { "why", "do\x1bwn" } } } } }
  };
  const std::string shown = show_placement(placement, plain);
  for (const char* words : { "placement on", "to one link", "65 %", "17.3 Mb/s", "13", "wifi2" })
    EXPECT_THAT(shown, HasSubstr(words));
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
}

TEST(PlacementView, says_why_it_rests)
{
  EXPECT_THAT(show_placement({ { "enabled", true }, { "in_force", false }, { "why", "no other link" } }, plain),
              HasSubstr("placement rests: no other link"));
}

} // namespace
} // namespace tandem::cli
