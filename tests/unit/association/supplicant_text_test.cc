#include "src/association/supplicant.h"

#include <gtest/gtest.h>

namespace tandem::association
{
namespace
{

TEST(SupplicantText, names_are_the_bytes_that_they_stand_for)
{
  EXPECT_EQ(unescaped("home"), "home");
  EXPECT_EQ(unescaped(R"(caf\xc3\xa9)"), "caf\xc3\xa9");
  EXPECT_EQ(unescaped(R"(a \"b\" \\ \t)"), "a \"b\" \\ \t");
  EXPECT_EQ(unescaped(R"(cut\)"), R"(cut\)");
  EXPECT_EQ(unescaped(R"(cut\x4)"), "cut4") << "no byte of one digit";
}

TEST(SupplicantText, networks_with_what_is_disabled)
{
  const auto all = parse_networks("network id / ssid / bssid / flags\n"
                                  "0\thome\tany\t[CURRENT]\n"
                                  "1\tthe \\\"lab\\\"\tany\t[DISABLED]\n"
                                  "x\tbad\tany\t\n"
                                  "2\t\tany\t\n"
                                  "3\tlast\tany\t");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].ssid, "home");
  EXPECT_FALSE(all[0].disabled);
  EXPECT_EQ(all[1].ssid, "the \"lab\"");
  EXPECT_TRUE(all[1].disabled);
  EXPECT_EQ(all[2].id, 3);
  EXPECT_TRUE(parse_networks("").empty());
}

// bssid= in wpa_supplicant.conf, "lock to this access point" in network managers: the user wants no other.
TEST(SupplicantText, a_network_of_one_access_point_is_not_to_be_joined_by_another)
{
  const auto all = parse_networks("network id / ssid / bssid / flags\n"
                                  "0\thome\t02:00:00:00:02:01\t[CURRENT]\n"
                                  "1\tlab\tany\t\n"
                                  "2\toff\tany\t[DISABLED]\n"
                                  "3\tout\tany\t\n"
                                  "4\tboth\t02:00:00:00:02:01\t\n"
                                  "5\tboth\tany\t\n");
  ASSERT_EQ(all.size(), 6u);
  EXPECT_TRUE(all[0].one_ap);
  EXPECT_FALSE(all[1].one_ap);
  EXPECT_EQ(names_to_join(all, { "out" }), (std::set<std::string> { "lab", "both" }));
  ASSERT_NE(network_to_join(all, "both"), nullptr);
  EXPECT_EQ(network_to_join(all, "both")->id, 5);
  EXPECT_EQ(network_to_join(all, "home"), nullptr);
  EXPECT_EQ(network_to_join(all, "off"), nullptr);
}

TEST(SupplicantText, the_last_network_also_without_a_name)
{
  EXPECT_EQ(last_network("network id / ssid / bssid / flags\n0\thome\tany\t\n7\t\tany\t[DISABLED]\n"), 7);
  EXPECT_EQ(last_network("network id / ssid / bssid / flags\n"), -1);
  EXPECT_EQ(last_network("FAIL\n"), -1);
}

TEST(SupplicantText, what_is_in_a_list)
{
  EXPECT_TRUE(lists("2412 5180\n", 5180));
  EXPECT_FALSE(lists("2412 5180\n", 518));
  EXPECT_FALSE(lists("", 5180));
  const Mac ap { 2, 0, 0, 0, 2, 1 };
  EXPECT_TRUE(lists("02:00:00:00:00:01 02:00:00:00:02:01\n", ap));
  EXPECT_FALSE(lists("02:00:00:00:00:01 nonsense 02:00/ff\n", ap));
  EXPECT_TRUE(lists("02:00:00:00:00:00/ff:ff:ff:00:00:00", ap));
  EXPECT_FALSE(lists("02:00:01:00:00:00/ff:ff:ff:00:00:00", ap));
}

TEST(SupplicantText, a_value_of_an_answer)
{
  EXPECT_EQ(value_of("bssid=02:00\nwpa_state=COMPLETED\n", "wpa_state"), "COMPLETED");
  EXPECT_EQ(value_of("bssid=02:00\n", "wpa_state"), "");
}

} // namespace
} // namespace tandem::association
