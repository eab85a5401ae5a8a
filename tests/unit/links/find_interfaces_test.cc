#include "src/links/find_interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tandem::links
{
namespace
{

namespace fs = std::filesystem;

class Sysfs : public testing::Test
{
protected:
  void SetUp() override
  {
    std::string name = testing::TempDir() + "sysfs-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }
  void device(const std::string& name, const std::string& state, const std::string& type = "",
              const char* part = nullptr)
  {
    fs::create_directories(root / name);
    std::ofstream { root / name / "operstate" } << state << "\n";
    std::ofstream { root / name / "uevent" } << (type.empty() ? "" : "DEVTYPE=" + type + "\n") << "INTERFACE=" << name
                                             << "\n";
    if (part) fs::create_directories(root / name / part);
  }
  fs::path root;
};

TEST_F(Sysfs, NoneFoundSaysWhatToDo)
{
  device("eth0", "up");
  EXPECT_EQ(find_wifi(root).interface, "");
  EXPECT_THAT(find_wifi(root).why, testing::HasSubstr("--wifi"));
  EXPECT_THAT(find_cell(root).why, testing::HasSubstr("--cell"));
  EXPECT_EQ(find_wifi(root / "missing").interface, "");
}

TEST_F(Sysfs, PrefersTheOneThatIsUp)
{
  device("wlan0", "down", "wlan", "phy80211");
  device("wlan1", "up", "wlan", "phy80211");
  const Found found = find_wifi(root);
  EXPECT_EQ(found.interface, "wlan1");
  EXPECT_THAT(found.why, testing::HasSubstr("also possible: wlan0"));
}

TEST_F(Sysfs, CellByTypeOrName)
{
  device("enx001122", "up", "wwan");
  EXPECT_EQ(find_cell(root).interface, "enx001122");
  device("ppp0", "unknown");
  EXPECT_EQ(find_cell(root).interface, "enx001122");
  fs::remove_all(root / "enx001122");
  EXPECT_EQ(find_cell(root).interface, "ppp0");
}

TEST_F(Sysfs, FurtherOnes)
{
  device("wlan0", "up", "wlan", "phy80211");
  device("wlan2", "up", "wlan", "phy80211");
  device("wlan1", "down", "wlan", "phy80211");
  device("mon0", "up", "wlan", "phy80211");
  std::ofstream { root / "mon0" / "type" } << "803\n"; // ARPHRD_IEEE80211_RADIOTAP
  device("eth0", "up");
  const auto named = [](const char* name) { return testing::Field(&Candidate::name, name); };
  EXPECT_THAT(wifi_candidates({ "wlan0" }, root), testing::ElementsAre(named("wlan2"), named("wlan1")));
  EXPECT_EQ(find_wifi({ "wlan0" }, root).interface, "wlan2");
  EXPECT_THAT(wifi_candidates({}, root / "missing"), testing::IsEmpty());
}

} // namespace
} // namespace tandem::links
