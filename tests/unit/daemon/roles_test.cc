#include "src/daemon/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace tandem::daemon
{
namespace
{

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

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
  Roles find() const { return find_roles(links, root); }

  fs::path root;
  Config::Links links {};
};

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

TEST_F(FindRoles, none_to_be_found)
{
  EXPECT_THROW(find(), std::runtime_error);
  wifi("wlan0");
  EXPECT_EQ(find().wifi, "wlan0");
  links.more_wifi = { "wlan0" };
  EXPECT_THROW(find(), std::runtime_error) << "the only one has a role";
}

} // namespace
} // namespace tandem::daemon
