#include "src/daemon/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

namespace fs = std::filesystem;
using links::PresentInterface;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace tandem::literals;

class FindRoles : public testing::Test
{
protected:
  void SetUp() override
  {
    std::string name = testing::TempDir() + "roles-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }
  void wifi(const std::string& name)
  {
    fs::create_directories(root / name / "phy80211");
    std::ofstream { root / name / "operstate" } << "up\n";
  }
  void gone(const std::string& name) { fs::remove_all(root / name); }
  FoundRoles look(const Roles& before = {}, Duration at = {}) const
  {
    return find_roles(links, before, present, Tick { at }, root);
  }
  Roles find(const Roles& before = {}, Duration at = {}) const { return look(before, at).roles; }

  fs::path root;
  Config::Links links {};
  std::vector<PresentInterface> present {};
};

TEST_F(FindRoles, a_virtual_station_is_never_the_first_and_has_a_place_behind_those_that_are_named)
{
  wifi("tandem-sta0");
  EXPECT_EQ(find().wifi, "") << "beside nothing";
  wifi("wlan0");
  wifi("wlan1");
  EXPECT_EQ(find().wifi, "wlan0");
  EXPECT_THAT(find().more_wifi, ElementsAre("tandem-sta0", "wlan1"));
  links.wifi = "wlan0";
  links.more_wifi = { "wlan9" };
  EXPECT_THAT(find().more_wifi, ElementsAre("wlan9", "tandem-sta0")) << "wlan1 is not named";
  wifi("tandem-sta1");
  const Roles both = find(find());
  EXPECT_THAT(both.more_wifi, ElementsAre("wlan9", "tandem-sta0", "tandem-sta1"));
  gone("tandem-sta0");
  EXPECT_THAT(find(both).more_wifi, ElementsAre("wlan9", "", "tandem-sta1")) << "no link changes its number";
}

TEST_F(FindRoles, everything_by_itself)
{
  wifi("wlan0");
  wifi("wlan1");
  wifi("wlan2");
  fs::create_directories(root / "wwan0");
  const Roles roles = find();
  EXPECT_EQ(roles.wifi, "wlan0");
  EXPECT_EQ(roles.cell, "wwan0");
  EXPECT_THAT(roles.more_wifi, ElementsAre("wlan1", "wlan2"));
  EXPECT_THAT(roles.unused, IsEmpty());
}

TEST_F(FindRoles, what_is_named_is_not_found_for_another_role)
{
  wifi("wlan0");
  wifi("wlan1");
  wifi("wlan2");
  links.cell = "wlan0"; // a phone's hotspot
  EXPECT_EQ(find().wifi, "wlan1");
  EXPECT_THAT(find().more_wifi, ElementsAre("wlan2"));
  links.more_wifi = { "wlan1", "not-there-yet" };
  EXPECT_EQ(find().wifi, "wlan2");
  EXPECT_THAT(find().more_wifi, ElementsAre("wlan1", "not-there-yet"));
  links.more_wifi.emplace();
  EXPECT_THAT(find().more_wifi, IsEmpty());
}

TEST_F(FindRoles, the_ninth_is_left_alone)
{
  for (const char* name : { "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9" })
    wifi(name);
  EXPECT_THAT(find().more_wifi, ElementsAre("w1", "w2", "w3", "w4", "w5", "w6", "w7"));
  EXPECT_THAT(find().unused, ElementsAre("w8", "w9"));
}

TEST_F(FindRoles, none_is_waited_for)
{
  EXPECT_EQ(find().wifi, "");
  EXPECT_THAT(find().wifi_why, HasSubstr("waits"));
  EXPECT_THAT(find().cell_why, HasSubstr("links.cell"));
  wifi("wlan0");
  EXPECT_EQ(find().wifi, "wlan0");
  EXPECT_THAT(find().wifi_why, HasSubstr("phy80211"));
  links.more_wifi = { "wlan0" };
  EXPECT_EQ(find().wifi, "") << "the only one has a role";
  links.cell = "none";
  EXPECT_THAT(find().cell_why, HasSubstr("none is to be used"));
}

TEST_F(FindRoles, the_default_route_decides_at_first)
{
  wifi("wlan0");
  wifi("wlan1");
  present = { { "wlan0", false, Tick {} }, { "wlan1", true, Tick {} } };
  EXPECT_EQ(find().wifi, "wlan1");
  EXPECT_THAT(find().more_wifi, ElementsAre("wlan0"));
}

TEST_F(FindRoles, a_blackout_hands_no_role_on)
{
  wifi("wlan0");
  wifi("wlan1");
  present = { { "wlan0", true, Tick {} }, { "wlan1", true, Tick {} } };
  const Roles before = find();
  ASSERT_EQ(before.wifi, "wlan0");
  present[0] = { "wlan0", false, Tick { 100s } };
  EXPECT_EQ(find(before, 101s).wifi, "wlan0");
  EXPECT_EQ(look(before, 101s).again, Tick { 130s });
  EXPECT_EQ(find(before, 129s).wifi, "wlan0");
  EXPECT_EQ(find(before, 130s).wifi, "wlan1");
  // With nobody who could do better there is nothing to wait for.
  present[1].useful = false;
  EXPECT_EQ(find(before, 200s).wifi, "wlan0");
  EXPECT_EQ(look(before, 200s).again, Tick::max());
}

TEST_F(FindRoles, who_is_gone_loses_its_role_at_once)
{
  wifi("wlan0");
  wifi("wlan1");
  const Roles before = find();
  ASSERT_EQ(before.wifi, "wlan0");
  gone("wlan0");
  EXPECT_EQ(find(before).wifi, "wlan1");
  const Roles after = find(before);
  wifi("wlan0"); // plugged in again: it comes second
  EXPECT_EQ(find(after).wifi, "wlan1");
  EXPECT_THAT(find(after).more_wifi, ElementsAre("wlan0"));
}

TEST_F(FindRoles, further_links_keep_their_numbers)
{
  for (const char* name : { "w0", "w1", "w2", "w3" })
    wifi(name);
  const Roles first = find();
  ASSERT_THAT(first.more_wifi, ElementsAre("w1", "w2", "w3"));
  gone("w1");
  const Roles second = find(first);
  EXPECT_THAT(second.more_wifi, ElementsAre("", "w2", "w3"));
  wifi("w4");
  EXPECT_THAT(find(second).more_wifi, ElementsAre("w4", "w2", "w3"));
  gone("w3");
  gone("w4");
  EXPECT_THAT(find(second).more_wifi, ElementsAre("", "w2"));
}

TEST_F(FindRoles, phones_are_cellular)
{
  wifi("wlan0");
  fs::create_directories(root / "enx12" / "device");
  fs::create_directories(root / "drivers" / "rndis_host");
  EXPECT_EQ(find().cell, "") << "any USB Ethernet";
  fs::create_directory_symlink("../../drivers/rndis_host", root / "enx12" / "device" / "driver");
  EXPECT_EQ(find().cell, "enx12");
  EXPECT_THAT(find().cell_why, HasSubstr("rndis_host"));
  gone("enx12");
  // Newer ones speak NCM, as docks do.
  const auto usb = [&](const char* driver, const char* address, const char* assigned)
  {
    fs::create_directories(root / "enx12" / "device");
    fs::create_directories(root / "drivers" / driver);
    fs::create_directory_symlink(fs::path { "../../drivers" } / driver, root / "enx12" / "device" / "driver");
    std::ofstream { root / "enx12" / "address" } << address << "\n";
    std::ofstream { root / "enx12" / "addr_assign_type" } << assigned << "\n";
    const Roles found = find();
    gone("enx12");
    return found;
  };
  EXPECT_EQ(usb("cdc_ncm", "8a:11:22:33:44:55", "0").cell, "enx12");
  EXPECT_THAT(usb("cdc_ether", "02:11:22:33:44:55", "0").cell_why, HasSubstr("an address of its own making"));
  EXPECT_EQ(usb("cdc_ncm", "00:e0:4c:33:44:55", "0").cell, "") << "a dock with its maker's address";
  EXPECT_EQ(usb("cdc_ncm", "8a:11:22:33:44:55", "1").cell, "") << "drawn by the driver: the dock has none";
  EXPECT_EQ(usb("cdc_ncm", "8a:11:22:33:44:55", "3").cell, "") << "set, as NetworkManager does it";
  EXPECT_EQ(usb("r8152", "8a:11:22:33:44:55", "0").cell, "");
  EXPECT_EQ(usb("cdc_ncm", "x?:11", "0").cell, "");
  EXPECT_EQ(usb("cdc_ncm", "", "0").cell, "");
  fs::create_directories(root / "bnep0");
  std::ofstream { root / "bnep0" / "uevent" } << "DEVTYPE=bluetooth\n";
  EXPECT_EQ(find().cell, "bnep0");
}

TEST_F(FindRoles, tunnels_to_a_relay_are_above_what_was_found)
{
  wifi("wlan0");
  links.cell = "wwan0";
  links.relay = { .wifi = "tandem-wifi", .cell = "tandem-cell" };
  EXPECT_EQ(find().wifi, "wlan0") << "they are not there (yet)";
  EXPECT_EQ(find().cell, "wwan0");
  EXPECT_EQ(find().lower, links::LowerInterfaces {});

  present = { { .name = "tandem-wifi" }, { .name = "tandem-cell" }, { .name = "wlan0" }, { .name = "wwan0" } };
  const Roles found = find();
  EXPECT_EQ(found.wifi, "tandem-wifi");
  EXPECT_EQ(found.cell, "tandem-cell");
  EXPECT_EQ(found.wifi_card(), "wlan0");
  EXPECT_EQ(found.modem(), "wwan0");
  EXPECT_THAT(found.wifi_why, HasSubstr("to the relay, by wlan0: has a phy80211"));
  EXPECT_TRUE(found.same_interfaces(find(found)));

  // What leaves past the relay is of no connection that servers have.
  present.erase(present.begin() + 1);
  EXPECT_EQ(find(found).cell, "");
  EXPECT_EQ(find(found).modem(), "wwan0");
  EXPECT_THAT(find(found).cell_why, HasSubstr("tandem-cell, to the relay by wwan0, is not there"));
  present.erase(present.begin());
  EXPECT_EQ(find(found).wifi, "wlan0");
  EXPECT_EQ(find(found).cell, "wwan0");
  EXPECT_FALSE(find(found).same_interfaces(found));

  links.cell = "none";
  present = { { .name = "tandem-wifi" }, { .name = "tandem-cell" }, { .name = "wlan0" } };
  EXPECT_EQ(find().wifi, "tandem-wifi");
  EXPECT_EQ(find().cell, "");
}

TEST_F(FindRoles, whoever_is_below_a_tunnel_keeps_its_place)
{
  wifi("wlan0");
  wifi("wlan1");
  links.relay = { .wifi = "tandem-wifi" };
  present = { { .name = "tandem-wifi" }, { .name = "wlan0" }, { .name = "wlan1" } };
  Roles before {};
  before.wifi = "tandem-wifi";
  before.lower.wifi = "wlan1";
  EXPECT_EQ(find(before).wifi_card(), "wlan1");
}

} // namespace
} // namespace tandem::daemon
