#include "tools/tandem/links_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json one_ap(double packet_time_us)
{
  const json ap { { "ap", "02:00:00:00:02:01" },
                  { "ssid", "home" },
                  { "associated", true },
                  { "fresh", true },
                  { "basis", "frames" },
                  { "delivery", 0.71 },
                  { "mbps", 54.0 },
                  { "signal_dbm", -61 },
                  { "confidence", 0.93 },
                  { "packet_time_us", packet_time_us } };
  return { { "wifi",
             { { "sources", json::array({ { { "name", "nl80211" }, { "state", "fresh" }, { "reports", 7 } } }) },
               { "aps", json::array({ ap }) } } } };
}

TEST(Sparkline, spans_from_the_least_to_the_most)
{
  EXPECT_EQ(sparkline({ 0.0, 7.0, 3.0 }, {}), "▁█▄");
  EXPECT_EQ(sparkline({ 5.0, 5.0 }, {}), "▁▁");
  EXPECT_EQ(sparkline({ 1.0, std::nullopt, 2.0 }, {}), "▁ █");
  EXPECT_EQ(sparkline({}, {}), "");
  EXPECT_EQ(sparkline({ 0.0, 7.0, std::nullopt, 3.0 }, { .utf8 = false }), "_# -") << "no UTF-8 there";
}

TEST(LinksView, shows_what_is_known_and_a_dash_for_what_is_not)
{
  LinksView view {};
  const std::string text = view.show(one_ap(621), {});
  for (const char* part : { "nl80211", "home", "0.62 ms", "71 %", "54.0", "-61 dBm", "93 %", "frames" })
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, HasSubstr("  -  ")) << "no MCS, no beacon loss";
}

TEST(LinksView, remembers_how_it_went)
{
  LinksView view {};
  view.show(one_ap(400), {});
  view.show(one_ap(800), {});
  EXPECT_THAT(view.show(one_ap(600), {}), HasSubstr("▁█▅"));
  for (int i = 0; i < 100; ++i)
    view.show(one_ap(400), {});
  EXPECT_THAT(view.show(one_ap(400), {}), Not(HasSubstr("█")));
}

TEST(LinksView, says_what_is_wrong)
{
  json links = one_ap(600);
  links["wifi"]["aps"][0]["hidden_terminal"] = true;
  links["wifi"]["aps"][0]["fresh"] = false;
  links["wifi"]["sources"][0] = { { "name", "monitor" },
                                  { "state", "closed" },
                                  { "problem", "no such device" },
                                  { "rejected", { { "impossible rate", 3 } } } };
  const std::string text = LinksView {}.show(links, {});
  for (const char* part : { "hidden terminal", "stale", "no such device", "impossible rate 3" })
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(LinksView, an_answer_of_another_version_does_no_harm)
{
  for (const char* odd :
       { "null", "[]", "{}", R"({"wifi": 3})", R"({"wifi": {"aps": [3, null, {"ap": 7, "delivery": "x"}]}})",
         R"({"wifi": {"sources": {}}, "cell": {"modems": [{"modem": "\u001b[2J"}]}})" })
    EXPECT_THAT(LinksView {}.show(json::parse(odd), {}), Not(HasSubstr("\x1b"))) << odd;
}

TEST(LinksView, further_wifi_links_have_parts_of_their_own)
{
  LinksView view {};
  EXPECT_THAT(view.show(one_ap(400), {}), Not(HasSubstr("wifi")));
  json links = one_ap(400);
  links["wifi2"] = one_ap(4000)["wifi"];
  links["wifi"]["interface"] = "wlan0";
  links["wifi2"]["interface"] = "wlan1";
  links["wifi2"]["steering"] = { { "ce_rate", 0.05 } };
  const std::string text = view.show(links, {});
  EXPECT_LT(text.find("wifi wlan0"), text.find("0.40 ms"));
  EXPECT_LT(text.find("0.40 ms"), text.find("wifi2 wlan1: CE 5.0 %"));
  EXPECT_LT(text.find("wifi2 wlan1"), text.find("4.00 ms"));
  EXPECT_THAT(text, HasSubstr("▁▁")) << "the same access point by two links has two pasts";
  EXPECT_THAT(text, Not(HasSubstr("█")));
}

} // namespace
} // namespace tandem::cli
