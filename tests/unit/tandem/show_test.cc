#include "tools/tandem/show.h"
#include "tools/tandem/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(Table, aligns_columns)
{
  Table table { { "NAME", ">RTT", "WHY" } };
  table.add({ "a", "5 ms", "x" });
  table.add({ "longer", "120 ms", "" });
  EXPECT_EQ(table.text({}), "NAME       RTT  WHY\n"
                            "a         5 ms  x\n"
                            "longer  120 ms\n");
}

TEST(Table, colours_do_not_move_columns)
{
  Table table { { "STATE", "X" } };
  table.add({ { "up", Tone::good }, "1" });
  EXPECT_EQ(table.text({ true }), "\x1b[2mSTATE\x1b[0m  \x1b[2mX\x1b[0m\n\x1b[32mup\x1b[0m     1\n");
}

TEST(Table, counts_letters_rather_than_bytes)
{
  Table table { { "N", "X" } };
  table.add({ "\xc3\xa4\xc3\xb6", "1" });
  table.add({ "abc", "2" });
  EXPECT_EQ(table.text({}), "N    X\n\xc3\xa4\xc3\xb6   1\nabc  2\n");
}

// Each of these names takes as many columns as its number says.
TEST(Table, counts_columns_as_a_terminal_does)
{
  Table table { { "N", "X" } };
  table.add({ "\xe4\xbd\xa0\xe5\xa5\xbd", "4" }); // two Han letters
  table.add({ "\xed\x95\x9c", "2" });             // Hangul
  table.add({ "\xf0\x9f\x93\xb6", "2" });         // an emoji, beyond the first 65536
  table.add({ "e\xcc\x81", "1" });                // e with a combining acute
  table.add({ "\xff\xe4\xbd", "3" });             // no UTF-8
  table.add({ "abcd", "4" });
  EXPECT_EQ(table.text({}), "N     X\n\xe4\xbd\xa0\xe5\xa5\xbd  4\n\xed\x95\x9c    2\n\xf0\x9f\x93\xb6    2\n"
                            "e\xcc\x81     1\n\xff\xe4\xbd   3\nabcd  4\n");
}

TEST(Show, control_characters_never_reach_the_terminal)
{
  const json flows = json::array({ { { "id", 1 },
                                     { "remote", "evil\x1b]0;title\x07" },
                                     { "modules", { { "m\x1b[2J", { { "f", "\r\n" } } } } } } });
  const std::string text = show_flows(flows, {});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  // U+0080 to U+009F are control characters, too: U+009B begins what ESC [ begins.
  EXPECT_EQ(printable("caf\xc3\xa9 \xc2\x9b"
                      "2J\xc2\x85\xc2\xa0|\xc2"),
            "caf\xc3\xa9 ?2J?\xc2\xa0|\xc2");
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(Show, the_profile_that_holds_is_told_where_there_are_any)
{
  json profile { { "name", "" }, { "why", "" }, { "profiles", json::array() } };
  EXPECT_THAT(show_status({ { "profile", profile } }, {}), Not(HasSubstr("profile")));
  profile = { { "name", "office" },
              { "why", "the Wi-Fi network is \"Office\"" },
              { "from", "t.toml:5" },
              { "sets", { "cell.use = \"never\"", "modules.freeze off" } },
              { "profiles", { { { "name", "office" } } } } };
  EXPECT_THAT(show_status({ { "profile", profile } }, {}),
              HasSubstr("profile office: the Wi-Fi network is \"Office\"; t.toml:5 sets cell.use = \"never\", "
                        "modules.freeze off\n"));
  profile["name"] = "";
  EXPECT_THAT(show_status({ { "profile", profile } }, {}), HasSubstr("profile none: the Wi-Fi network is"));
}

TEST(Show, a_link_without_carrier_is_down_and_one_with_carrier_in_a_blackout)
{
  json link { { "interface", "wlan0" }, { "present", true }, { "up", false }, { "carrier", true } };
  EXPECT_THAT(show_status({ { "links", { { "wifi", link } } } }, {}), HasSubstr("wlan0      blackout"));
  link["carrier"] = false;
  EXPECT_THAT(show_status({ { "links", { { "wifi", link } } } }, {}), HasSubstr("wlan0      down"));
}

TEST(Show, doctor_shows_what_the_radio_tells)
{
  const std::string shown = show_doctor(
      { { "health", "ok" },
        { "checks", json::array() },
        { "radio",
          { { { "source", "nl80211" }, { "field", "station signal" }, { "there", "yes" }, { "why", "reported now" } },
            { { "source", "modem" }, { "field", "rsrp" }, { "there", "absent" }, { "why", "" } },
            7 } } },
      {});
  EXPECT_THAT(shown, HasSubstr("What the radio tells:"));
  EXPECT_THAT(shown, ContainsRegex("nl80211 +station signal +yes +reported now"));
  EXPECT_THAT(shown, ContainsRegex("modem +rsrp +absent"));
}

TEST(Show, status_says_why_nothing_is_fetched_when_somebody_wants_it)
{
  const auto shown = [](const json& fetch) { return show_status({ { "fetch", fetch } }, {}); };
  EXPECT_THAT(shown({ { "running", false }, { "why", "no module wants it" } }), Not(HasSubstr("fetching")));
  EXPECT_THAT(shown({ { "running", false }, { "why", "/m/services/fetch.so: is not installed" } }),
              HasSubstr("fetching off: /m/services/fetch.so: is not installed"));
  EXPECT_THAT(shown({ { "running", true }, { "why", "" }, { "asked", 7 }, { "brought", 5 } }),
              HasSubstr("fetching 7 pieces asked for, 5 brought"));
}

// Of another version, or broken: shown as far as it goes, never a crash.
TEST(Show, takes_whatever_comes)
{
  for (const json& strange :
       { json {}, json::object(), json::array(), json("text"), json(7),
         json { { "links", 3 }, { "modules", { 1, "x", nullptr } }, { "flows", "many" } },
         json { { "links", { { "wifi", nullptr } } }, { "uptime_s", 1e300 }, { "checks", { 1 } } } })
  {
    EXPECT_NO_THROW(show_status(strange, {})) << strange;
    EXPECT_NO_THROW(show_modules(strange, {})) << strange;
    EXPECT_NO_THROW(show_module(strange, {})) << strange;
    EXPECT_NO_THROW(show_flows(strange, {})) << strange;
    EXPECT_NO_THROW(show_doctor(strange, {})) << strange;
  }
}

TEST(Show, the_fastest_flow_comes_first_and_one_left_alone_says_why)
{
  const json flows = json::array(
      { { { "id", 1 }, { "rate_mbps", 1.0 }, { "bypass", "attached mid-flow" }, { "modules", json::object() } },
        { { "id", 2 }, { "rate_mbps", 9.0 }, { "bypass", "none" } } });
  const std::string text = show_flows(flows, {});
  EXPECT_LT(text.find("9 Mbit/s"), text.find("1 Mbit/s"));
  EXPECT_THAT(text, HasSubstr("bypassed: attached mid-flow"));
}

TEST(Show, a_keeper_that_stood_in_is_told)
{
  const json status { { "keeper", { { "state", "suspended" }, { "suspensions", 2 }, { "suspended_s", 1.5 } } } };
  EXPECT_THAT(show_status(status, {}), HasSubstr("keeper suspended, stood in 2 times for 1.5 s"));
}

TEST(Show, roles_say_why_they_are_whose_they_are)
{
  const json links { { "wifi", { { "interface", "wlan0" }, { "why", "has a phy80211 in sysfs" } } },
                     { "cell", { { "interface", "" }, { "why", "no cellular interface is there" } } } };
  const std::string out = show_status({ { "links", links } }, {});
  EXPECT_THAT(out, HasSubstr("wifi: has a phy80211 in sysfs\n"));
  EXPECT_THAT(out, HasSubstr("cell: no cellular interface is there\n"));
}

TEST(Show, links_that_are_steered_say_how_and_why)
{
  const auto request = [](double value) {
    return json { { "value", value }, { "by", "ecn" }, { "why", "ecn: worse" } };
  };
  json status { { "links", { { "wifi", json::object() }, { "wifi2", json::object() } } } };
  EXPECT_THAT(show_status(status, {}), Not(HasSubstr("STEERED")));
  json& steering = status["links"]["wifi2"]["steering"];
  steering = { { "ce_rate", 0.02 }, { "ce_rate_requested", request(0.05) }, { "backup_requested", request(1) } };
  EXPECT_THAT(show_status(status, {}), HasSubstr("CE 2.0 % on the way to 5.0 %, backup (ecn: worse)"));
  steering = { { "backup_requested", request(0) }, { "endpoint_requested", request(0) } };
  EXPECT_THAT(show_status(status, {}), HasSubstr("endpoint taken away (ecn: worse)"));
  steering = { { "backup_requested", request(0) } };
  EXPECT_THAT(show_status(status, {}), HasSubstr("not now"));
  steering = { { "roam_requested", request(1) } };
  EXPECT_THAT(show_status(status, {}), HasSubstr("roam (ecn: worse)"));
}

TEST(Show, roams_that_modules_asked_for)
{
  json roaming { { "wanted", true }, { "asked", 0 }, { "moved", 0 }, { "worse", 0 }, { "failed", 0 }, { "stayed", 0 } };
  roaming["last"] = "";
  EXPECT_THAT(show_status({ { "roaming", roaming } }, {}), Not(HasSubstr("roaming")));
  roaming.update({ { "asked", 3 }, { "moved", 2 }, { "failed", 1 }, { "last", "no roam: it is excluded" } });
  EXPECT_THAT(show_status({ { "roaming", roaming } }, {}),
              HasSubstr("roaming  3 asked for, 2 done, 1 failed; last: no roam: it is excluded\n"));
}

TEST(Show, routes_into_tunnels)
{
  const auto route = [](const char* to) { return json { { "into", "wg0 (wireguard)" }, { "to", to } }; };
  json tunnels { { "routes", json::array() }, { "flows", 0 } };
  EXPECT_THAT(show_status({ { "tunnels", tunnels } }, {}), Not(HasSubstr("tunnels")));
  for (const char* to : { "10.0.0.0/8", "fd00::/8", "198.51.100.0/24", "192.0.2.0/24" })
    tunnels["routes"].push_back(route(to));
  tunnels["flows"] = 2;
  EXPECT_THAT(
      show_status({ { "tunnels", tunnels } }, {}),
      HasSubstr(
          "\ntunnels  wg0 (wireguard): 10.0.0.0/8, fd00::/8, 198.51.100.0/24 and 1 more; 2 flows left alone now\n"));
}

TEST(Show, endpoints_and_what_is_not_done)
{
  const json steering {
    { "ce_why", "nft: no" },
    { "endpoints",
      json::array({ { { "address", "192.0.2.1" },
                      { "id", 3 },
                      { "interface", "wlan1" },
                      { "own", true },
                      { "subflow", true },
                      { "backup", true } },
                    { { "address", "192.0.2.9" }, { "id", 4 }, { "interface", "" }, { "own", false } } }) },
    { "refused", json::array({ { { "what", "backup of 192.0.2.9" }, { "why", "others made it" } } }) }
  };
  const std::string text = show_status({ { "steering", steering } }, {});
  EXPECT_THAT(text, ContainsRegex("192.0.2.1 +3  wlan1 +Tandem +subflow backup"));
  EXPECT_THAT(text, ContainsRegex("192.0.2.9 +4  - +others +-"));
  EXPECT_THAT(text, HasSubstr("no CE marks: nft: no"));
  EXPECT_THAT(text, HasSubstr("not done: backup of 192.0.2.9: others made it"));
  EXPECT_THAT(show_steering({ { "ce_backend", "nftables" }, { "ce_why", "fine" } }, {}), "");
}

TEST(Show, subflows_of_one_connection_have_one_token)
{
  json flows = json::array({ { { "id", 1 }, { "ecn", true } } });
  EXPECT_THAT(show_flows(flows, {}), Not(HasSubstr("MPTCP")));
  flows.push_back(
      { { "id", 2 },
        { "acc_ecn", true },
        { "mptcp", { { "token", "00c0ffee" }, { "joined", true }, { "backup", true }, { "version", 1 } } } });
  const std::string text = show_flows(flows, {});
  EXPECT_THAT(text, HasSubstr("MPTCP"));
  EXPECT_THAT(text, ContainsRegex("00c0ffee joined backup +accurate"));
  EXPECT_THAT(text, ContainsRegex("- +classic"));
}

TEST(Show, a_senders_kind_comes_with_confidence_and_reason)
{
  const json flows = json::array(
      { { { "id", 1 }, { "sender", { { "kind", "unknown" }, { "confidence", 0 }, { "why", "nothing has arrived" } } } },
        { { "id", 2 },
          { "sender", { { "kind", "rate-based" }, { "confidence", 95 }, { "why", "not slower after losses" } } } } });
  const std::string text = show_flows(flows, {});
  EXPECT_THAT(text, HasSubstr("SENDER"));
  EXPECT_THAT(text, ContainsRegex("unknown: nothing has arrived"));
  EXPECT_THAT(text, ContainsRegex("rate-based 95 %: not slower after losses"));
}

TEST(Show, numbers_of_modules_have_all_their_digits)
{
  const json facts { { "in flight at most (bytes)", 1'234'567.0 },
                     { "goodput (Mb/s)", 12345.6 },
                     { "ce_rate", 0.004 } };
  const json flows = json::array({ { { "id", 1 }, { "bypass", "none" }, { "modules", { { "mirror", facts } } } } });
  EXPECT_THAT(show_flows(flows, {}),
              HasSubstr("mirror: ce_rate 0.004 goodput (Mb/s) 12346 in flight at most (bytes) 1234567"));
}

} // namespace
} // namespace tandem::cli
