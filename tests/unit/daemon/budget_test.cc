#include "src/daemon/budget_book.h"
#include "src/daemon/budget_file.h"
#include "src/daemon/whole_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tandem::daemon
{
namespace
{

using namespace std::chrono_literals;

constexpr Calendar january { 20'000, 24'289 }, next_day { 20'001, 24'289 }, next_month { 20'020, 24'290 };

TEST(Calendars, CountDaysAndMonths)
{
  std::tm day {};
  day.tm_year = 70, day.tm_mon = 0, day.tm_mday = 1;
  EXPECT_EQ(calendar_of(day), (Calendar { 0, 1970 * 12 }));
  day.tm_year = 124, day.tm_mon = 1, day.tm_mday = 29; // 2024-02-29
  EXPECT_EQ(calendar_of(day), (Calendar { 19'782, 2024 * 12 + 1 }));
  day.tm_mon = 2, day.tm_mday = 1;
  EXPECT_EQ(calendar_of(day).day, 19'783);
}

// Between the two zones there are 26 hours, at any time of the day.
TEST(Calendars, ANewTimeZoneCountsAtOnce)
{
  const char* const given = std::getenv("TZ");
  const std::string before = given != nullptr ? given : "";
  ::setenv("TZ", "WEST12", 1);
  const Calendar west = calendar_now();
  ::setenv("TZ", "EAST-14", 1);
  EXPECT_GT(calendar_now().day, west.day);
  given != nullptr ? ::setenv("TZ", before.c_str(), 1) : ::unsetenv("TZ");
  ::tzset();
}

TEST(BudgetBooks, DaysAndMonthsBeginAnew)
{
  BudgetBook book {};
  book.move(january);
  book.spend("offload", 100);
  book.spend("mirror", 50);
  EXPECT_EQ(book.today(), (Spent { { "mirror", 50 }, { "offload", 100 } }));
  book.move(next_day);
  EXPECT_EQ(sum(book.today()), 0u);
  EXPECT_EQ(sum(book.this_month()), 150u);
  book.spend("offload", 1);
  book.move(next_month);
  EXPECT_EQ(sum(book.this_month()), 0u);
}

TEST(BudgetBooks, AClockThatIsSetBackMakesNoRoom)
{
  BudgetBook book {};
  book.move(january);
  book.spend("offload", 100);
  book.move(next_month); // the clock jumps ahead
  book.spend("offload", 7);
  book.move(january); // and is put right
  EXPECT_EQ(sum(book.this_month()), 107u) << "what was spent in the future counts, too";
  EXPECT_EQ(sum(book.today()), 107u);
  const Calendar earlier { january.day - 40, january.month - 1 };
  book.move(earlier);
  EXPECT_EQ(sum(book.this_month()), 107u);
  EXPECT_EQ(sum(book.today()), 107u);
  book.move(january);
  EXPECT_EQ(sum(book.this_month()), 107u) << "as the first time";
  book.move(next_day);
  EXPECT_EQ(sum(book.this_month()), 107u);
  book.move(next_month);
  EXPECT_EQ(sum(book.this_month()), 0u) << "a month that comes is a month that comes: it is not stuck for ever";
}

TEST(BudgetBooks, OfTwoCountTogether)
{
  BudgetBook before {}, since {};
  before.move(january);
  before.spend("offload", 100);
  before.move(next_day);
  before.spend("offload", 10);
  since.move(next_day);
  since.spend("offload", 1);
  since.spend("mirror", 2);
  since.add(before);
  EXPECT_EQ(since.today(), (Spent { { "mirror", 2 }, { "offload", 11 } }));
  EXPECT_EQ(sum(since.this_month()), 113u);
  since.move(next_month);
  EXPECT_EQ(sum(since.this_month()), 0u);
}

TEST(BudgetBooks, AClockThatWasBehindFindsTheMonthAsItIs)
{
  constexpr Calendar years_behind { january.day - 730, january.month - 24 };
  BudgetBook book {};
  for (std::int64_t day = 0; day < 3; ++day)
  {
    book.move({ january.day + day, january.month });
    book.spend("offload", 100);
  }
  const Calendar right { january.day + 2, january.month };
  for (int start = 0; start < 5; ++start) // of a machine whose battery is flat
  {
    BudgetBook again {};
    ASSERT_EQ(again.read(book.text(false)).wrong, "");
    book = again;
    for (int look = 0; look < 3; ++look)
      book.move(years_behind);
    EXPECT_GE(sum(book.today()), 100u) << "no room meanwhile";
    EXPECT_GE(sum(book.this_month()), 300u);
    book.spend("offload", 1);
    book.move(right);
    EXPECT_EQ(sum(book.today()), 101u + start) << "as it is set right";
    EXPECT_EQ(sum(book.this_month()), 301u + start);
  }
}

TEST(BudgetBooks, AClockThatGoesOnBehindIsBelieved)
{
  BudgetBook book {};
  book.move({ january.day + 3650, january.month + 120 }); // at the first start of all it was ahead
  book.spend("offload", 100);
  for (std::int64_t day = 0; day < 3; ++day)
  {
    book.move({ january.day + day, january.month });
    EXPECT_EQ(sum(book.today()), 100u);
    BudgetBook again {};
    ASSERT_EQ(again.read(book.text(false)).wrong, "") << "also over restarts";
    book = again;
  }
  book.move({ january.day + 3, january.month });
  EXPECT_EQ(sum(book.today()), 0u);
  EXPECT_EQ(sum(book.this_month()), 100u);
  book.move(next_month);
  EXPECT_EQ(sum(book.this_month()), 0u);
}

// A machine without a battery begins in 1970, which west of Greenwich is 1969 still.
TEST(BudgetBooks, AClockThatIsNotSetWestOfGreenwichForgetsNothing)
{
  constexpr Calendar not_set { -1, 1970 * 12 - 1 };
  BudgetBook book {};
  book.move(january);
  book.spend("offload", 100);
  book.move(not_set);
  BudgetBook again {};
  ASSERT_EQ(again.read(book.text(false)).wrong, "");
  again.move(january);
  EXPECT_EQ(sum(again.this_month()), 100u);
  BudgetBook first {};
  first.move(not_set);
  first.spend("offload", 100);
  EXPECT_EQ(again.read(first.text(false)).wrong, "") << "of an installation that has just begun";
}

TEST(BudgetBooks, AreReadWithAllDaysThatTheyWrite)
{
  BudgetBook book {};
  for (std::int64_t day = 0; day < 200; ++day)
  {
    book.move({ january.day + day, january.month + day / 30 });
    book.spend("offload", 1);
    book.spend("mirror", 1);
    EXPECT_EQ(BudgetBook {}.read(book.text(true)).wrong, "") << day;
  }
}

TEST(BudgetBooks, AreTheSameAfterBeingWritten)
{
  BudgetBook book {};
  book.move(january);
  book.spend("offload", 100);
  book.move(next_day);
  book.spend("fetch", 12'345'678'901);
  BudgetBook again {};
  const auto read = again.read(book.text(true));
  EXPECT_EQ(read.wrong, "");
  EXPECT_TRUE(read.open);
  EXPECT_FALSE(again.read(book.text(false)).open);
  again.move(next_day);
  EXPECT_EQ(again.today(), book.today());
  EXPECT_EQ(again.this_month(), book.this_month());
  again.move(january);
  EXPECT_EQ(sum(again.today()), 100 + 12'345'678'901u);
}

TEST(BudgetBooks, NothingOfADamagedTextIsUsed)
{
  BudgetBook book {};
  book.move(january);
  book.spend("offload", 100);
  const std::string whole = book.text(false);
  for (std::size_t length = 0; length < whole.size(); ++length)
  {
    BudgetBook cut {};
    EXPECT_NE(cut.read(whole.substr(0, length)).wrong, "") << length;
    cut.move(january);
    EXPECT_EQ(sum(cut.today()), 0u);
  }
  for (const std::string& wrong : { whole + "x\n", std::string { "tandem-budget 2 open\nend\n" },
                                    std::string { "tandem-budget 1 open\nday 1 offload -1\nend\n" },
                                    std::string { "tandem-budget 1 open\nday 1 Off 1\nend\n" },
                                    std::string { "tandem-budget 1 open\nyear 1 a 1\nend\n" },
                                    std::string { "tandem-budget 1 open\nday 99999999999 a 1\nend\n" },
                                    std::string { "tandem-budget 1 open\nday 1 a 99999999999999999999\nend\n" } })
    EXPECT_NE(book.read(wrong).wrong, "") << wrong;
}

class BudgetOnDisk : public testing::Test
{
protected:
  BudgetOnDisk()
  {
    std::string name = testing::TempDir() + "budget-XXXXXX";
    top = ::mkdtemp(name.data());
    directory = top / "state" / "budget";
  }
  ~BudgetOnDisk() override { std::filesystem::remove_all(top); }

  std::uint64_t loaded(std::string* problem = nullptr) const
  {
    BudgetFile file { directory };
    const BudgetBook book = file.load(january, 5'000'000);
    if (problem != nullptr) *problem = file.problem();
    return sum(book.this_month());
  }

  std::filesystem::path top, directory;
};

TEST_F(BudgetOnDisk, IsThereAfterARestartAndADeathCostsWhatMayNotHaveBeenCounted)
{
  EXPECT_EQ(loaded(), 0u);
  BudgetBook book {};
  book.move(january);
  book.spend("offload", 1000);
  BudgetFile file { directory };
  ASSERT_TRUE(file.save(book.text(false)));
  EXPECT_EQ(loaded(), 1000u);
  ASSERT_TRUE(file.save(book.text(true)));
  EXPECT_EQ(loaded(), 1000u + BudgetFile::uncounted);
  struct stat info
  {
  };
  ASSERT_EQ(::stat((directory / "spent").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0600u);
}

TEST_F(BudgetOnDisk, WhatCannotBeReadIsPutAsideAndCostsADay)
{
  EXPECT_EQ(loaded(), 0u);
  std::ofstream { directory / "spent" } << "tandem-budget 1 closed\nday 1 off";
  std::string problem {};
  EXPECT_EQ(loaded(&problem), 5'000'000u);
  EXPECT_NE(problem.find("is not whole; put aside as spent.aside1"), std::string::npos) << problem;
  EXPECT_TRUE(std::filesystem::exists(directory / "spent.aside1"));
  EXPECT_FALSE(std::filesystem::exists(directory / "spent"));
}

// A daemon that root has started beside the service's: what that has spent is spent, though nobody here can tell it.
TEST_F(BudgetOnDisk, WhatAnotherUserKeepsCostsADay)
{
  EXPECT_EQ(loaded(), 0u);
  std::ofstream { directory / "spent" } << "tandem-budget 1 closed\n";
  for (const std::filesystem::path& above : { top, directory.parent_path(), directory })
    std::filesystem::permissions(above, std::filesystem::perms::others_exec, std::filesystem::perm_options::add);
  // Its file, its directory, or the directory above may not be looked into.
  for (const std::filesystem::path& closed : { directory / "spent", directory, directory.parent_path() })
  {
    std::filesystem::permissions(closed, std::filesystem::perms::none);
    // To root everything is open.
    const bool root = ::geteuid() == 0 && ::seteuid(65534) == 0;
    std::string problem {};
    EXPECT_EQ(loaded(&problem), 5'000'000u) << closed;
    EXPECT_NE(problem.find("is not heeded"), std::string::npos) << problem;
    EXPECT_NE(problem.find("`tandem up`"), std::string::npos) << problem;
    ASSERT_TRUE(!root || ::seteuid(0) == 0);
    std::filesystem::permissions(closed, std::filesystem::perms::owner_all | std::filesystem::perms::others_exec);
  }
}

TEST_F(BudgetOnDisk, WithoutADirectoryItSaysWhatThatMeans)
{
  std::ofstream { top / "state" } << "a file";
  std::string problem {};
  EXPECT_EQ(loaded(&problem), 0u);
  EXPECT_NE(problem.find("is forgotten when the daemon ends"), std::string::npos) << problem;
}

TEST_F(BudgetOnDisk, TheSaverWritesTheLatestBeforeItEnds)
{
  BudgetBook book {};
  book.move(january);
  {
    BudgetSaver saver { BudgetFile { directory }, [](const std::string& said) { ADD_FAILURE() << said; } };
    for (int i = 0; i < 100; ++i)
    {
      book.spend("offload", 1);
      saver.post(book.text(i < 99));
    }
  }
  EXPECT_EQ(loaded(), 100u);
}

// The disk was full while something was spent, and has room again when nothing is.
TEST_F(BudgetOnDisk, TheSaverTriesAgainWhatFailed)
{
  EXPECT_EQ(loaded(), 0u);
  std::filesystem::create_directory(directory / "spent.part"); // in the way
  BudgetBook book {};
  book.move(january);
  book.spend("offload", 7);
  std::atomic<int> said { 0 };
  BudgetSaver saver { BudgetFile { directory }, [&](const std::string&) { ++said; }, 20ms };
  saver.post(book.text(false));
  for (int i = 0; i < 3000 && said == 0; ++i)
    std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(said, 1) << "once, however often it fails";
  std::filesystem::remove(directory / "spent.part");
  for (int i = 0; i < 3000 && !std::filesystem::exists(directory / "spent"); ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(loaded(), 7u);
}

TEST_F(BudgetOnDisk, TheSaverEndsThoughNothingCanBeSaved)
{
  EXPECT_EQ(loaded(), 0u);
  std::filesystem::create_directory(directory / "spent.part");
  std::atomic<int> said { 0 };
  const auto begun = std::chrono::steady_clock::now();
  {
    BudgetSaver saver { BudgetFile { directory }, [&](const std::string&) { ++said; } };
    saver.post("tandem-budget 1 closed\nend\n");
    while (said == 0)
      std::this_thread::sleep_for(1ms);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s);
}

} // namespace
} // namespace tandem::daemon
