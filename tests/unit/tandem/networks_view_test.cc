#include "tools/tandem/networks_view.h"
#include "tools/tandem/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json evidence(int comparisons, double gain, double low, double high, const char* standing)
{
  return {
    { "comparisons", comparisons }, { "gain", gain }, { "low", low }, { "high", high }, { "standing", standing }
  };
}

TEST(Gain, IsShownWithItsInterval)
{
  EXPECT_EQ(gain_words(evidence(40, 0.031, -0.005, 0.069, "acting")), "+3.1 % (-0.5 to +6.9)");
  EXPECT_EQ(gain_words(evidence(40, -0.3, -0.5, -0.123, "resting")), "-30 % (-50 to -12)");
  EXPECT_EQ(gain_words(evidence(0, 0, 0, 0, "acting")), "not known yet");
  json wide = evidence(1, 0.2, 0, 0, "acting");
  wide["low"] = wide["high"] = nullptr;
  EXPECT_EQ(gain_words(wide), "+20 % (? to ?)");
  EXPECT_EQ(gain_words(json {}), "not known yet");
  json never = evidence(0, 0, 0, 0, "acting");
  never["not_compared"] = "it compares links itself";
  EXPECT_EQ(gain_words(never), "not compared: it compares links itself");
}

TEST(Gain, StatusHasItOnlyWhenSomethingIsCompared)
{
  json module { { "name", "offload" }, { "enabled", true }, { "in_force", true }, { "flows", 1 }, { "faults", 0 } };
  EXPECT_THAT(show_modules(json::array({ module }), {}), Not(HasSubstr("GAIN")));
  module["evidence"] = evidence(40, -0.3, -0.5, -0.123, "resting");
  module["evidence"]["rests_s"] = 7200;
  const std::string text = show_modules(json::array({ module }), {});
  EXPECT_THAT(text, HasSubstr("GAIN HERE"));
  EXPECT_THAT(text, HasSubstr("-30 % (-50 to -12)"));
  EXPECT_THAT(text, HasSubstr("on, rests here for 2 h"));
}

TEST(Networks, AreShownTheLatestFirst)
{
  const json place { { "cell", "wwan0" },
                     { "servers", "10.1.2.0/24" },
                     { "used_s", 60 },
                     { "modules", { { "offload", evidence(40, 0.031, 0.01, 0.069, "acting") } } } };
  const json networks =
      json::array({ { { "name", "cafe\x1b[2J" }, { "here", false }, { "used_s", 90'000 }, { "places", json::array() } },
                    { { "name", "home" }, { "here", true }, { "used_s", 5 }, { "places", json::array({ place }) } } });
  const std::string text = show_networks(networks, {});
  EXPECT_THAT(text, HasSubstr("home (here)"));
  EXPECT_THAT(text, HasSubstr("10.1.2.0/24"));
  EXPECT_LT(text.find("home"), text.find("cafe"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(show_networks(json::array(), {}), "nothing was learnt yet\n");
  EXPECT_EQ(show_networks(json { 1 }, {}).find("NETWORK"), 0u) << "of a daemon of another version";
}

TEST(Networks, PathsThatAreKnownStandBehindTheNetworks)
{
  const json home { { "kind", "wifi" },
                    { "name", "home" },
                    { "here", true },
                    { "used_s", 5 },
                    { "places", json::array() },
                    { "known_paths",
                      { { { "cell", "wwan0 26201" },
                          { "servers", "203.0.113.0/24" },
                          { "added_delay_s", 0.0184 },
                          { "validated_s", 720 } },
                        { { "cell", "wwan0 26201\x1b[2J" }, { "servers", 1 }, { "added_delay_s", "x" } } } } };
  const std::string text = show_networks(json::array({ home }), {});
  EXPECT_THAT(text, HasSubstr("\n\nNETWORK      CELLULAR         SERVERS REACHED  ADDED DELAY  VALIDATED BEFORE\n"
                              "home (here)  wwan0 26201      203.0.113.0/24        +18 ms            12 min\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(show_networks(json::array({ { { "kind", "wifi" } } }), {}), Not(HasSubstr("REACHED")))
      << "nothing is known";
}

TEST(Networks, AccessPointsThatKeepFramesStandBehindTheNetworks)
{
  const json home { { "kind", "wifi" },
                    { "name", "home" },
                    { "here", true },
                    { "used_s", 5 },
                    { "places", json::array() },
                    { "keep_frames",
                      { { { "access_point", "02:00:00:00:01:01" }, { "blackouts", 3 }, { "found_s", 7200 } },
                        { { "access_point", "x\x1b[2J" }, { "blackouts", "x" } } } } };
  const std::string text = show_networks(json::array({ home }), {});
  EXPECT_THAT(text, HasSubstr("ACCESS POINT THAT KEEPS FRAMES"));
  EXPECT_THAT(text, HasSubstr("home (here)  02:00:00:00:01:01                       3           2 h"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Networks, PathsThatAreNotTriedStandByThemselves)
{
  const json paths = json::array({ { { "servers", "all" }, { "failures", 3 }, { "rests_s", 60 } },
                                   { { "servers", "203.0.113.0/24" }, { "failures", 2 }, { "rests_s", 100 } } });
  const json cell {
    { "kind", "cellular" }, { "name", "wwan0" }, { "here", true }, { "used_s", 20 }, { "paths", paths }
  };
  const json tried { { "kind", "cellular" },
                     { "name", "usb0\x1b[2J" },
                     { "here", false },
                     { "used_s", 10'800 },
                     { "paths", json::array() } };
  const std::string text = show_networks(json::array({ tried, cell }), {});
  EXPECT_EQ(text, "CELLULAR      SERVERS NOT TRIED  FAILURES  TRIED AGAIN IN  USED BEFORE\n"
                  "wwan0 (here)  all                       3            60 s         20 s\n"
                  "wwan0 (here)  203.0.113.0/24            2           100 s         20 s\n"
                  "usb0?[2J      none                      -               -          3 h\n");
  const json home { { "kind", "wifi" }, { "name", "home" }, { "used_s", 5 }, { "places", json::array() } };
  const std::string both = show_networks(json::array({ cell, home }), {});
  EXPECT_EQ(both.find("NETWORK"), 0u);
  EXPECT_THAT(both, HasSubstr("\n\nCELLULAR "));
  EXPECT_THAT(both, HasSubstr("wwan0 (here)  203.0.113.0/24"));
  EXPECT_THAT(show_networks(json::array({ { { "kind", "cellular" }, { "paths", json::array({ 1, "x" }) } } }), {}),
              HasSubstr("CELLULAR"))
      << "of a daemon of another version";
}

} // namespace
} // namespace tandem::cli
