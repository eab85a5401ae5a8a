#include "tools/tandem/top_view.h"
#include "tools/tandem/why_view.h"

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

json flow(const char* remote, double rate)
{
  return { { "remote", remote },
           { "local", "10.0.0.2:5000" },
           { "link", "wifi" },
           { "age_s", 12.0 },
           { "rate_mbps", rate },
           { "rtt_ms", 54.0 },
           { "rtt_min_ms", 50.0 },
           { "delivered_bytes", 1'000'000 },
           { "bypass", "none" },
           { "sender", { { "kind", "loss-based" }, { "confidence", 90.0 }, { "why", "halved after a loss" } } },
           { "modules",
             { { "offload", { { "phase", "cellular" }, { "why", "offload: by cellular" }, { "one ACK in", 1.0 } } },
               { "freeze", { { "phase", "clear" }, { "why", "freeze: back" } } } } } };
}

json module(const char* name, bool on, double decided)
{
  return { { "name", name },
           { "enabled", on },
           { "in_force", true },
           { "flows", 1 },
           { "decisions", { { "by cellular", decided }, { "probe begins", 1 } } } };
}

json status(double decided, double sent)
{
  return { { "version", "1" },
           { "uptime_s", 60.0 },
           { "flows", { { "count", 2 } } },
           { "links",
             { { "cell", { { "interface", "wwan0" }, { "present", true }, { "up", true }, { "bytes_out", sent } } } } },
           { "modules", json::array({ module("offload", true, decided), module("mirror", false, 0) }) } };
}

TEST(Top, counts_per_second_from_one_look_to_the_next)
{
  TopView view {};
  const json flows = json::array({ flow("192.0.2.1:443", 24.0) });
  const std::string first = view.show(status(100, 1000), flows, 0, 40, 200, {});
  EXPECT_THAT(first, ContainsRegex("1 +offload +on +1 +- +- +-"));
  const std::string second = view.show(status(300, 5000), flows, 2, 40, 200, {});
  EXPECT_THAT(second, ContainsRegex("1 +offload +on +1 +- +100 +by cellular"));
  EXPECT_THAT(second, ContainsRegex("cell +wwan0 +up +- +- +[^ ]+ [kK]?i?B +[^ ]+ [kK]?i?B"));
  EXPECT_THAT(second, ContainsRegex("192\\.0\\.2\\.1:443 +wifi .*54 ms +4 ms .*loss-based"));
  EXPECT_THAT(second, HasSubstr("offload: by cellular"));
}

TEST(Top, a_counter_that_was_set_back_is_no_rate)
{
  TopView view {};
  view.show(status(300, 0), json::array(), 0, 40, 200, {});
  EXPECT_THAT(view.show(status(5, 0), json::array(), 1, 40, 200, {}), ContainsRegex("1 +offload +on +1 +- +0 +-"));
}

TEST(Top, keys_are_the_modules_in_their_order_and_off_is_seen)
{
  TopView view {};
  view.show(status(1, 0), json::array(), 0, 40, 200, {});
  EXPECT_THAT(view.modules(), testing::ElementsAre("offload", "mirror"));
  EXPECT_TRUE(view.enabled("offload"));
  EXPECT_FALSE(view.enabled("mirror"));
  EXPECT_FALSE(view.enabled("nosuch"));
}

TEST(Top, keeps_to_the_screen)
{
  TopView view {};
  json flows = json::array();
  for (int i = 0; i < 50; ++i)
    flows.push_back(flow("192.0.2.1:443", 1.0 + i));
  const std::string text = view.show(status(1, 0), flows, 1, 10, 40, { true });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);
  std::istringstream lines { text };
  for (std::string line; std::getline(lines, line);)
    EXPECT_EQ(cut(line, 40), line);
}

TEST(Top, cutting_counts_letters_and_ends_a_colour)
{
  EXPECT_EQ(cut("abcdef", 3), "abc");
  EXPECT_EQ(cut("\xc3\xa4\xc3\xb6\xc3\xbc", 2), "\xc3\xa4\xc3\xb6");
  EXPECT_EQ(cut("\x1b[32mabcdef\x1b[0m", 3), "\x1b[32mabc\x1b[0m");
  EXPECT_EQ(cut("\xe4\xbd\xa0\xe5\xa5\xbd", 3), "\xe4\xbd\xa0") << "the second would wrap the line";
  EXPECT_EQ(cut("e\xcc\x81z", 1), "e\xcc\x81") << "what combines takes no column";
  EXPECT_EQ(cut("\x1b[32mab\x1b[0m", 2), "\x1b[32mab\x1b[0m");
}

TEST(Top, an_excluded_flow_says_so)
{
  TopView view {};
  json excluded = flow("192.0.2.1:443", 24.0);
  excluded["excluded"] = "user backup";
  const std::string text = view.show(status(1, 1), json::array({ excluded }), 0, 40, 200, {});
  EXPECT_THAT(text, HasSubstr("left alone: user backup"));
  EXPECT_THAT(text, Not(HasSubstr("offload: by cellular")));
}

TEST(Top, stands_what_is_missing_or_of_another_kind)
{
  TopView view {};
  for (const json& odd : { json {}, json::array({ 1, "x" }), json { { "modules", 7 }, { "links", "x" } } })
    EXPECT_THAT(view.show(odd, odd, 1, 20, 80, {}), HasSubstr("tandemd"));
}

TEST(Why, finds_the_server_by_address_and_port)
{
  const json flows = json::array({ flow("192.0.2.1:443", 1), flow("192.0.2.1:80", 5), flow("[2001:db8::1]:443", 2) });
  EXPECT_EQ(flows_to({ "a", { "192.0.2.1" }, 0 }, flows).size(), 2u);
  EXPECT_EQ(flows_to({ "a", { "192.0.2.1" }, 0 }, flows)[0]["remote"], "192.0.2.1:80");
  EXPECT_EQ(flows_to({ "a", { "192.0.2.1" }, 443 }, flows).size(), 1u);
  EXPECT_EQ(flows_to({ "a", { "2001:db8::1" }, 0 }, flows).size(), 1u);
  EXPECT_TRUE(flows_to({ "a", { "192.0.2.2" }, 0 }, flows).empty());
}

TEST(Why, says_for_each_module_what_it_does_or_why_not)
{
  json one = flow("192.0.2.1:443", 24);
  one["rests"] = { "freeze" };
  json modules = json::array(
      { module("offload", true, 1), module("freeze", true, 1), module("mirror", false, 1), module("ecn", true, 1) });
  modules[0]["evidence"] = {
    { "comparisons", 9 }, { "gain", 0.05 }, { "low", 0.01 }, { "high", 0.09 }, { "standing", "acting" }
  };
  const std::string text = explain_flows({ one }, modules, {});
  EXPECT_THAT(text, HasSubstr("192.0.2.1:443 from 10.0.0.2:5000 by wifi, open for 12 s, 24.0 Mb/s, round trip 54 ms, "
                              "of it 4 ms in queues"));
  EXPECT_THAT(text, HasSubstr("sender: loss-based, 90 % sure: halved after a loss"));
  EXPECT_THAT(text, HasSubstr("offload cellular: by cellular\n      one ACK in 1\n      gain on this network: "));
  EXPECT_THAT(text, HasSubstr("freeze left out of this flow now: it is compared with and without"));
  EXPECT_THAT(text, HasSubstr("mirror off"));
  EXPECT_THAT(text, HasSubstr("ecn has had nothing to do here yet"));
}

TEST(Why, a_bypassed_flow_has_one_reason)
{
  json one = flow("192.0.2.1:443", 24);
  one["bypass"] = "mid_flow";
  const std::string text = explain_flows({ one }, json::array({ module("offload", true, 1) }), {});
  EXPECT_THAT(text, HasSubstr("left alone by every module: mid_flow"));
  EXPECT_THAT(text, Not(HasSubstr("offload")));
}

TEST(Why, control_characters_never_reach_the_terminal)
{
  json one = flow("evil\x1b]0;t\x07", 1);
  one["modules"] = { { "offload", { { "f\x1b[2J", "\r\n" }, { "why", "\x1b" } } } };
  TopView view {};
  for (const std::string& text : { explain_flows({ one }, json::array({ module("offload", true, 1) }), {}),
                                   view.show(status(1, 0), json::array({ one }), 1, 40, 200, {}) })
  {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\x07")));
  }
}

TEST(Top, hands_off_all_flows_say_why)
{
  TopView view {};
  json off = status(100, 1000);
  EXPECT_THAT(view.show(off, json::array(), 0, 40, 200, {}), Not(HasSubstr("hands off")));
  off["hands_off"] = "wg0 has the default route";
  EXPECT_THAT(view.show(off, json::array(), 0, 40, 200, {}),
              HasSubstr("\nhands off all flows: wg0 has the default route\n\n"));
}

TEST(Why, a_small_share_is_not_none)
{
  json one = flow("192.0.2.1:443", 24.0);
  one["modules"] = { { "ecn",
                       { { "a share", 0.0042 },
                         { "b share", 0.25 },
                         { "c", 12.34 },
                         { "d", 4096.0 },
                         { "e", 0.0 },
                         { "f", 100.0 },
                         { "g", 2.04 } } } };
  EXPECT_THAT(explain_flows({ one }, json::array({ module("ecn", true, 1) }), {}),
              HasSubstr("a share 0.0042, b share 0.25, c 12.3, d 4096, e 0, f 100, g 2\n"));
}

} // namespace
} // namespace tandem::cli
