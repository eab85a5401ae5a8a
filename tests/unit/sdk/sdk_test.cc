// The module SDK as a third party meets it: a shared library built against include/tandem alone, found, loaded, run.
#include "src/daemon/module_loader.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace tandem
{
namespace
{

using namespace test;

std::string text_of(const std::string& file)
{
  std::ifstream in { file };
  std::ostringstream text {};
  text << in.rdbuf();
  return text.str();
}

struct Sdk : ::testing::Test
{
  void SetUp() override
  {
    if (geteuid() != 0) GTEST_SKIP() << "modules must belong to root";
    directory = std::filesystem::path { SDK_BUILD } / ("load." + std::to_string(getpid()));
    std::filesystem::create_directory(directory);
    chmod(directory.c_str(), 0755);
  }
  void TearDown() override
  {
    if (!directory.empty()) std::filesystem::remove_all(directory);
  }
  // Puts a built module into the directory, as an installation does.
  void install(const std::string& target)
  {
    const std::filesystem::path file = directory / (target + ".so");
    std::filesystem::copy_file(std::filesystem::path { SDK_BUILD } / target / (target + ".so"), file,
                               std::filesystem::copy_options::overwrite_existing);
    chmod(file.c_str(), 0644);
  }
  std::filesystem::path directory {};
};

TEST_F(Sdk, TheExampleIsLoadedAndWorks)
{
  install("sdk_cap");
  daemon::LoadedModules loaded = daemon::load_modules(directory);
  EXPECT_TRUE(loaded.problems.empty()) << loaded.problems.front();
  ASSERT_EQ(loaded.modules.size(), 1u);
  Module& cap = *loaded.modules[0].module;
  EXPECT_EQ(cap.name(), "cap");
  ASSERT_EQ(cap.knobs().size(), 1u);
  EXPECT_EQ(cap.get("limit"), 262144);

  Fixture fixture { { &cap } };
  Peers peers {};
  fixture.open(peers);
  EXPECT_TRUE(fixture.ack(peers).edit.empty()) << "a window of 500 << 7 is below the limit";
  peers.window = 4000;
  EXPECT_EQ(fixture.ack(peers).edit.window, 262144 >> 7);
  EXPECT_EQ(fixture.ack(peers).why, "cap: window above the limit");
  cap.set("limit", 65536);
  EXPECT_EQ(fixture.ack(peers).edit.window, 65536 >> 7);
  EXPECT_EQ(fixture.violations(), 0u);

  struct Lines final : Facts
  {
    void add(std::string_view, std::string_view) override {}
    void add(std::string_view key, double value, std::string_view) override { all[std::string { key }] = value; }
    std::map<std::string, double> all {};
  } lines {};
  cap.describe(fixture.view(peers), std::as_const(fixture.chain).state(fixture.flow(peers), 0), lines);
  EXPECT_EQ(lines.all["ACKs capped"], 3);
}

TEST_F(Sdk, WhatDoesNotFitIsRefusedWithASentenceAndTheRestRuns)
{
  for (const char* target : { "sdk_cap", "sdk_alien1", "sdk_alien2", "sdk_alien3", "sdk_alien4", "sdk_alien5" })
    install(target);
  std::ofstream { directory / "garbage.so" } << "no library";
  chmod((directory / "garbage.so").c_str(), 0644);
  const daemon::LoadedModules loaded = daemon::load_modules(directory);
  ASSERT_EQ(loaded.modules.size(), 1u);
  EXPECT_EQ(loaded.modules[0].module->name(), "cap");
  ASSERT_EQ(loaded.problems.size(), 6u);
  const auto says = [&](const std::string& file, const std::string& words)
  {
    for (const std::string& one : loaded.problems)
      if (one.find(file) != std::string::npos && one.find(words) != std::string::npos) return true;
    return false;
  };
  EXPECT_TRUE(says("sdk_alien1.so", "module ABI"));
  EXPECT_TRUE(says("sdk_alien2.so", "other headers"));
  EXPECT_TRUE(says("sdk_alien3.so", "failed to start"));
  EXPECT_TRUE(says("sdk_alien4.so", "no symbol tandem_module"));
  EXPECT_TRUE(says("sdk_alien5.so", "no setting could name it"));
  EXPECT_TRUE(says("garbage.so", ""));

  // And whoever asks for one of these hears why, not only that there is none.
  const auto answer = daemon::knob_check(loaded)({ "garbage", "", "", {} });
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->text.find("is not loaded; " + (directory / "garbage.so").string() + ": "), std::string::npos)
      << answer->text;
  EXPECT_EQ(daemon::knob_check(loaded)({ "rocket", "", "", {} })->text, "no such module is loaded; loaded are: cap");
}

TEST_F(Sdk, TheSameModuleTwiceIsRefused)
{
  install("sdk_cap");
  std::filesystem::copy_file(directory / "sdk_cap.so", directory / "zz.so");
  const daemon::LoadedModules loaded = daemon::load_modules(directory);
  EXPECT_EQ(loaded.modules.size(), 1u);
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_NE(loaded.problems[0].find("already loaded"), std::string::npos);
}

TEST_F(Sdk, WhatOthersMayWriteIsNotLoaded)
{
  install("sdk_cap");
  chmod((directory / "sdk_cap.so").c_str(), 0666);
  EXPECT_TRUE(daemon::load_modules(directory).modules.empty());
  chmod((directory / "sdk_cap.so").c_str(), 0644);
  chmod(directory.c_str(), 0777);
  const daemon::LoadedModules loaded = daemon::load_modules(directory);
  EXPECT_TRUE(loaded.modules.empty());
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_NE(loaded.problems[0].find("chmod go-w"), std::string::npos);
  EXPECT_EQ(daemon::knob_check(loaded)({ "cap", "", "", {} })->text, "is not loaded; " + loaded.problems[0]);
}

TEST(SdkManual, ShowsTheVeryExamplesThatAreTested)
{
  const std::string manual = text_of(SDK_MANUAL);
  ASSERT_FALSE(manual.empty());
  for (const char* file : { "cap.cc", "cap.seg", "tail.cc", "tail.seg" })
  {
    const std::string name { file }, example = text_of(SDK_EXAMPLES "/" + name);
    ASSERT_FALSE(example.empty()) << name;
    const std::string language = name.ends_with(".cc") ? "```cpp " : "```text ";
    EXPECT_NE(manual.find(language + name + "\n" + example + "```\n"), std::string::npos)
        << "docs/writing-a-module.md must contain tests/unit/sdk/example/" << name << " word for word";
  }
}

} // namespace
} // namespace tandem
