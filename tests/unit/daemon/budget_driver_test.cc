// What the chain spends is kept, and limits it, from the first limit on.
#include "src/daemon/budget_driver.h"
#include "src/daemon/whole_file.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

namespace tandem::daemon
{
namespace
{

using namespace std::chrono_literals;

class BudgetDrivers : public testing::Test
{
protected:
  void SetUp() override
  {
    std::string pattern = testing::TempDir() + "budget_driver_test.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
    budget.directory = directory / "budget";
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  // Of a daemon that begins anew, and has spent nothing itself.
  nlohmann::json after_a_restart() const
  {
    test::Fixture again { {} };
    return BudgetDriver { budget, true, again.chain }.json();
  }

  std::filesystem::path directory;
  Config::Budget budget {};
  test::Fixture fixture { {} };
};

TEST_F(BudgetDrivers, WhatWasSpentIsThereAfterARestart)
{
  {
    BudgetDriver driver { budget, true, fixture.chain };
    fixture.chain.spent(3'000'000);
    static_cast<void>(driver.look(Tick { 1s }));
    EXPECT_EQ(driver.json()["today"]["left_bytes"], *budget.cell_day - 3'000'000);
  }
  const auto told = after_a_restart();
  EXPECT_EQ(told["today"]["used_bytes"], 3'000'000);
  EXPECT_EQ(told["month"]["left_bytes"], *budget.cell_month - 3'000'000);
}

// Killed, it is charged for what it may not have told: no more than that may be missing for long.
TEST_F(BudgetDrivers, WhatIsSpentFastIsSavedSooner)
{
  BudgetDriver driver { budget, true, fixture.chain };
  fixture.chain.spent(100);
  static_cast<void>(driver.look(Tick { 10s }));
  fixture.chain.spent(5'000'000);
  static_cast<void>(driver.look(Tick { 11s }));
  const auto file = budget.directory / "spent";
  for (int i = 0; i < 100 && read_whole(file, longest_budget_text).find(" fetch 5000100\n") == std::string::npos; ++i)
    std::this_thread::sleep_for(20ms); // its saver is a thread
  EXPECT_EQ(after_a_restart()["today"]["used_bytes"], 5'000'100u + BudgetFile::uncounted);
}

// `systemctl reload` has taken it over, and `tandem budget` shows it.
TEST_F(BudgetDrivers, ALimitThatComesWhileTheDaemonRunsIsKeptToo)
{
  {
    BudgetDriver earlier { budget, true, fixture.chain };
    fixture.chain.spent(1'000'000);
  }
  budget.cell_day.reset();
  budget.cell_month.reset();
  {
    test::Fixture later { {} };
    BudgetDriver driver { budget, false, later.chain };
    later.chain.spent(3'000'000);
    static_cast<void>(driver.look(Tick { 1s }));
    EXPECT_EQ(driver.json()["kept"], false) << "nobody asks";
    budget.cell_day = 10'000'000;
    static_cast<void>(driver.look(Tick { 2s }));
    EXPECT_EQ(driver.json()["kept"], true);
    EXPECT_EQ(driver.json()["today"]["used_bytes"], 4'000'000) << "with what was kept before";
    EXPECT_EQ(later.chain.options().cell_budget, 3'000'000u + 6'000'000u);
  }
  EXPECT_EQ(after_a_restart()["today"]["used_bytes"], 4'000'000);
}

} // namespace
} // namespace tandem::daemon
