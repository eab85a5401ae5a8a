#include "tools/tandem/aps_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(AccessPoints, are_shown_with_what_they_are_worth)
{
  const json aps = json::parse(
      R"({"interface": "wlan0", "keep": 3, "problem": "", "card": {"stations": 4, "channels": 2, "stations_apart": 4, "channels_apart": 2},
    "access_points": [
      {"ap": "02:00:00:00:00:01", "ssid": "home", "channel": 6, "signal_dbm": -50.4, "age_s": 2, "interface": "wlan0", "worth": true, "why": "the access point of wlan0"},
      {"ap": "02:00:00:00:00:02", "ssid": "home", "channel": 6, "interface": "tandem-sta0", "worth": true, "why": "kept"},
      {"ap": "02:00:00:00:00:03", "ssid": "home", "channel": 6, "interface": "tandem-sta1", "worth": true, "why": "kept"},
      {"ap": "02:00:00:00:00:04", "ssid": "", "channel": 11, "interface": "", "worth": false, "why": "its name is hidden"}],
    "stations": [{"interface": "tandem-sta0", "ap": "02:00:00:00:00:02", "state": "in use", "address": "192.0.2.7", "endpoint": true},
                 {"interface": "tandem-sta1", "ap": "02:00:00:00:00:03", "state": "waiting for an address", "endpoint": false}]})");
  const std::string text = show_aps(aps, {});
  EXPECT_THAT(text, HasSubstr("-50 dBm"));
  EXPECT_THAT(text, HasSubstr("yes: the access point of wlan0"));
  EXPECT_THAT(text, HasSubstr("yes: 192.0.2.7, MPTCP endpoint"));
  EXPECT_THAT(text, HasSubstr("yes: waiting for an address"));
  EXPECT_THAT(text, HasSubstr("(hidden)"));
  EXPECT_THAT(text, HasSubstr("no: its name is hidden"));
  EXPECT_THAT(text, HasSubstr("up to 3 access points"));
  EXPECT_THAT(text, HasSubstr("at 4 access points, on 2 channels"));
}

TEST(AccessPoints, turns_between_channels_are_told)
{
  json aps = json::parse(
      R"({"keep": 2, "several_channels": true, "card": {"stations": 3, "channels": 1, "stations_apart": 2, "channels_apart": 2},
    "turns": {"doing": "staying on the best channel", "problem": "", "backup": ["wlan0"], "orders": 7, "late": 2, "failed": 1, "longest_ms": 9.5, "best_mhz": 5180}})");
  const std::string text = show_aps(aps, {});
  EXPECT_THAT(text, HasSubstr("up to 2 access points of several channels"));
  EXPECT_THAT(text, HasSubstr("channels: staying on the best channel; most came by 5180 MHz; backup: wlan0\n"
                              "7 orders to the card, 2 late, 1 failed\n"));
  EXPECT_THAT(text, HasSubstr("at 3 access points, on one channel, or at 2 on 2 channels"));
  EXPECT_THAT(text, Not(HasSubstr("subflows alone")));
  aps["turns"]["problem"] = "power save of tandem-sta0: not supported";
  EXPECT_THAT(show_aps(aps, {}), HasSubstr("by subflows alone: power save of tandem-sta0"));
  aps["turns"] = 7; // from a daemon of another version
  EXPECT_THAT(show_aps(aps, {}), Not(HasSubstr("orders")));
}

TEST(AccessPoints, a_problem_comes_first_and_nothing_is_made_up)
{
  const json aps = json::parse(
      R"({"keep": 0, "problem": "wpa_supplicant does not answer", "card": {"stations": 1, "channels": 1}})");
  const std::string text = show_aps(aps, {});
  EXPECT_EQ(text.rfind("wpa_supplicant does not answer", 0), 0u);
  EXPECT_THAT(text, HasSubstr("no access point is in range"));
  EXPECT_THAT(text, HasSubstr("at one access point only"));
  EXPECT_THAT(show_aps(json::object(), {}), Not(HasSubstr("card can")));
}

} // namespace
} // namespace tandem::cli
