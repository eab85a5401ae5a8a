// The fetch service as the daemon meets it: found beside the modules, looked at, loaded; anything else is refused with
// a sentence.
#include "src/daemon/fetch_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tandem::daemon
{
namespace
{

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct FetchLoader : ::testing::Test
{
  void SetUp() override
  {
    if (geteuid() != 0) GTEST_SKIP() << "the service must belong to root";
    all = fs::path { FETCH_BUILD } / ("load." + std::to_string(getpid()));
    another_directory();
  }
  void TearDown() override
  {
    if (!all.empty()) fs::remove_all(all);
  }
  // What is loaded stays, and the dynamic linker knows it by its path.
  void another_directory()
  {
    static int number = 0;
    directory = all / std::to_string(++number);
    fs::create_directories(directory / "services");
    for (const auto& made : { directory, directory / "services" })
      chmod(made.c_str(), 0755);
  }
  void install(const fs::path& file)
  {
    another_directory();
    fs::copy_file(file, fetch_library(directory));
    chmod(fetch_library(directory).c_str(), 0644);
  }
  // Why nothing is loaded; empty when something is.
  std::string refusal()
  {
    std::string problem {};
    const fetch::ServiceEntry* entry = load_fetch(directory, problem);
    EXPECT_EQ(entry == nullptr, !problem.empty());
    return problem;
  }
  fs::path all {}; // of this process
  fs::path directory {};
};

// Whether the library is in this process' memory.
bool mapped(const fs::path& file)
{
  std::ifstream maps { "/proc/self/maps" };
  for (std::string line; std::getline(maps, line);)
    if (line.find(file.string()) != std::string::npos) return true;
  return false;
}

TEST_F(FetchLoader, TheBuiltServiceIsLoadedAndStays)
{
  install(FETCH_SERVICE);
  EXPECT_EQ(fetch_problem(directory), "");
  EXPECT_FALSE(mapped(fetch_library(directory))) << "looking loads nothing";
  std::string problem {};
  const fetch::ServiceEntry* entry = load_fetch(directory, problem);
  ASSERT_NE(entry, nullptr) << problem;
  EXPECT_TRUE(mapped(fetch_library(directory)));
  // Asked for an interface that does not exist, it says so and is still there.
  const auto create = [&]
  {
    entry->create(
        { .wifi = "none-such", .ports = { 80 } }, [](const FlowKey&) { return true; },
        [](const fetch::Message&) { return true; });
  };
  EXPECT_THROW(create(), std::exception);
  EXPECT_TRUE(mapped(fetch_library(directory)));
}

TEST_F(FetchLoader, AMissingOneIsNamed)
{
  EXPECT_EQ(refusal(), fetch_library(directory).string() + ": is not installed");
  EXPECT_EQ(fetch_problem(directory), refusal());
}

TEST_F(FetchLoader, WhatOthersMayWriteIsNotRun)
{
  install(FETCH_SERVICE);
  for (const auto& open : { directory, directory / "services", fetch_library(directory) })
  {
    struct stat before
    {
    };
    ASSERT_EQ(stat(open.c_str(), &before), 0);
    chmod(open.c_str(), before.st_mode | S_IWOTH);
    EXPECT_THAT(refusal(), HasSubstr("others than root may write it")) << open;
    chmod(open.c_str(), before.st_mode);
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(FetchLoader, OtherLibrariesAreRefused)
{
  install(FETCH_ALIEN_1);
  EXPECT_THAT(refusal(), HasSubstr("built for service ABI"));
  install(FETCH_ALIEN_2);
  EXPECT_THAT(refusal(), HasSubstr("built against other headers"));
  install(FETCH_ALIEN_3);
  EXPECT_THAT(refusal(), HasSubstr("built against other headers"));
  install(FETCH_MODULE);
  EXPECT_THAT(refusal(), HasSubstr("is no fetch service"));
  another_directory();
  std::ofstream { fetch_library(directory) } << "not a library";
  EXPECT_THAT(refusal(), HasSubstr("is not a whole shared library"));
}

} // namespace
} // namespace tandem::daemon
