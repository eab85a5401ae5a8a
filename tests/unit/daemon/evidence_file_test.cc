#include "src/daemon/evidence_file.h"
#include "src/daemon/whole_file.h"
#include "src/evidence/text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tandem::daemon
{
namespace
{

using namespace std::chrono_literals;

constexpr evidence::WallTime now = 1'700'000'000;

class EvidenceOnDisk : public testing::Test
{
protected:
  EvidenceOnDisk()
  {
    std::string name = testing::TempDir() + "evidence-XXXXXX";
    top = ::mkdtemp(name.data());
    directory = top / "state" / "evidence";
  }
  ~EvidenceOnDisk() override { std::filesystem::remove_all(top); }

  static evidence::Memory learnt()
  {
    evidence::Memory memory {};
    static_cast<void>(memory.recognize({ "home", "02:00:00:00:00:01", true }, now));
    return memory;
  }
  void write(const std::string& bytes) const { std::ofstream { directory / "networks" } << bytes; }
  std::string read(const std::string& name) const
  {
    std::ifstream in { directory / name };
    return { std::istreambuf_iterator<char> { in }, {} };
  }

  std::filesystem::path top, directory;
};

unsigned mode(const std::filesystem::path& path)
{
  struct stat info
  {
  };
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777u : 0;
}

TEST_F(EvidenceOnDisk, IsThereAfterARestartAndForNobodyElse)
{
  {
    EvidenceFile file { directory };
    EXPECT_TRUE(file.load(now).networks().empty());
    EXPECT_EQ(file.problem(), "");
    EXPECT_TRUE(file.save(to_text(learnt())));
  }
  EXPECT_EQ(mode(directory), 0700u);
  EXPECT_EQ(mode(directory / "networks"), 0600u);
  EvidenceFile again { directory };
  EXPECT_EQ(again.load(now).networks(), learnt().networks());
  EXPECT_EQ(again.problem(), "");
}

TEST_F(EvidenceOnDisk, ATornForeignOrNewerFileIsPutAsideAndNotLost)
{
  const std::string whole = to_text(learnt());
  const std::vector<std::string> odd { whole.substr(0, whole.size() / 2), "", "#!/bin/sh\n", "tandem-evidence 2 0 0\n",
                                       std::string(100, '\0') };
  int aside = 0;
  for (const std::string& bytes : odd)
  {
    EvidenceFile file { directory };
    write(bytes);
    EXPECT_TRUE(file.load(now).networks().empty());
    EXPECT_NE(file.problem().find("put aside as networks.aside"), std::string::npos) << file.problem();
    EXPECT_EQ(read("networks.aside" + std::to_string(++aside)), bytes);
    EXPECT_FALSE(std::filesystem::exists(directory / "networks"));
    EXPECT_TRUE(file.save(whole)) << "it goes on";
    EXPECT_EQ(file.problem(), "");
    EXPECT_EQ(read("networks"), whole);
  }
  // They do not fill the disk.
  for (int i = 0; i < 20; ++i)
  {
    write("odd");
    EvidenceFile { directory }.load(now);
  }
  EXPECT_LE(std::distance(std::filesystem::directory_iterator { directory }, {}), 6);
}

TEST_F(EvidenceOnDisk, ALinkIsNotFollowed)
{
  EvidenceFile file { directory };
  const auto elsewhere = top / "elsewhere";
  std::ofstream { elsewhere } << "mine";
  std::filesystem::create_symlink(elsewhere, directory / "networks");
  EXPECT_TRUE(file.load(now).networks().empty());
  EXPECT_TRUE(file.save(to_text(learnt())));
  std::filesystem::create_symlink(elsewhere, directory / "networks.part");
  EXPECT_TRUE(file.save(to_text(learnt()))) << "it is taken out of the way";
  EXPECT_FALSE(std::filesystem::is_symlink(directory / "networks"));
  std::ifstream in { elsewhere };
  EXPECT_EQ((std::string { std::istreambuf_iterator<char> { in }, {} }), "mine");
}

TEST_F(EvidenceOnDisk, WithoutADirectoryItSaysWhatIsLost)
{
  std::ofstream { top / "state" } << "a file where the directory should be";
  EvidenceFile file { directory };
  EXPECT_NE(file.problem().find("forgotten when the daemon ends"), std::string::npos) << file.problem();
  EXPECT_FALSE(file.save("x"));
}

TEST_F(EvidenceOnDisk, AWriteThatFailsLeavesWhatWasThere)
{
  EvidenceFile file { directory };
  ASSERT_TRUE(file.save(to_text(learnt())));
  std::filesystem::create_directory(directory / "networks.part"); // in the way
  EXPECT_FALSE(file.save("other"));
  EXPECT_EQ(read("networks"), to_text(learnt()));
}

TEST_F(EvidenceOnDisk, TheSaverSavesAtTheEndAndTriesAgainWhatFailed)
{
  EvidenceFile file { directory };
  std::filesystem::create_directory(directory / "networks.part");
  std::vector<std::string> problems;
  std::atomic<int> asked { 0 };
  {
    const EvidenceSaver saver { file,
                                [&]() -> std::optional<std::string>
                                {
                                  if (asked++ > 0) return {};
                                  std::filesystem::remove(directory / "networks.part");
                                  return "learnt";
                                },
                                [&](const std::string& problem) { problems.push_back(problem); } };
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(read("networks"), "learnt");
  EXPECT_TRUE(problems.empty());
}

class SavedInTime : public EvidenceOnDisk
{
protected:
  bool comes_true(const std::function<bool()>& what) const
  {
    for (int i = 0; i < 500 && !what(); ++i)
      std::this_thread::sleep_for(10ms);
    return what();
  }

  EvidenceFile file { directory };
  std::atomic<int> asked { 0 };
  const EvidenceSaver::Text text = [&]() -> std::optional<std::string>
  {
    ++asked;
    return "learnt";
  };
};

TEST_F(SavedInTime, NothingNewWakesNobody)
{
  const EvidenceSaver saver { file, text, {}, 5ms };
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(asked, 0);
}

TEST_F(SavedInTime, NewsWaitForAPauseAndThenNothingMoreIsAsked)
{
  EvidenceSaver saver { file, text, {}, 100ms };
  saver.news(false);
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(comes_true([&] { return asked == 1; }));
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(read("networks"), "learnt");
}

TEST_F(SavedInTime, WhoRestsHasItWrittenAtOnceButNotOftenerThanThePause)
{
  EvidenceSaver saver { file, text, {}, 1h };
  saver.news(false);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(asked, 0);
  saver.news(true);
  EXPECT_TRUE(comes_true([&] { return asked == 1; }));
  saver.news(true);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(asked, 1);
}

TEST_F(SavedInTime, WhatFailedIsTriedAgain)
{
  std::filesystem::create_directory(directory / "networks.part"); // in the way
  std::atomic<int> said { 0 };
  EvidenceSaver saver { file, text, [&](const std::string&) { ++said; }, 20ms };
  saver.news(true);
  EXPECT_TRUE(comes_true([&] { return asked >= 3; }));
  EXPECT_EQ(said, 1);
  std::filesystem::remove(directory / "networks.part");
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(directory / "networks"); }));
}

TEST_F(SavedInTime, ADiskThatIsFullAgainIsToldAgain)
{
  const std::filesystem::path in_the_way = directory / "networks.part";
  std::filesystem::create_directory(in_the_way);
  std::atomic<int> said { 0 };
  EvidenceSaver saver { file, text, [&](const std::string&) { ++said; }, 20ms };
  saver.news(true);
  ASSERT_TRUE(comes_true([&] { return said == 1; }));
  std::filesystem::remove(in_the_way);
  ASSERT_TRUE(comes_true([&] { return std::filesystem::exists(directory / "networks"); }));
  std::filesystem::create_directory(in_the_way);
  EXPECT_TRUE(comes_true(
      [&]
      {
        saver.news(true);
        return said == 2;
      }));
}

} // namespace
} // namespace tandem::daemon
