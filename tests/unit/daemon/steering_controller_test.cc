#include "src/daemon/steering_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::daemon
{
namespace
{

using namespace tandem::literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint8_t ecn = 3;

class Controller : public testing::Test
{
protected:
  void SetUp() override
  {
    table.apply(links::InterfaceNotification { .ifindex = 1, .name = "wlan0", .admin_up = true, .running = true },
                Tick {});
    table.apply(links::AddressNotification { .ifindex = 1, .address = { .bytes = { 192, 0, 2, 1 } } }, Tick {});
  }
  void backup(double value)
  {
    steering.take({ .request = { RequestKind::mptcp_backup, Link::wifi, value }, .slot = ecn, .why = "worse" });
  }
  auto due() { return steering.due(table, now); }

  links::LinkTable table { "wlan0", "" };
  SteeringController steering { {} };
  chain::Chain::ModuleStats module {};
  Tick now { 10s };
};

TEST_F(Controller, TellsNothingThatIsNotNew)
{
  EXPECT_FALSE(due());
  EXPECT_TRUE(steering.settled());
  backup(1);
  const auto plan = due();
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->paths.size(), 1u);
  EXPECT_TRUE(plan->paths[0].backup);
  now += 1s;
  EXPECT_FALSE(due());
  EXPECT_TRUE(steering.settled());
  EXPECT_EQ(steering.taken(), 1u);
}

TEST_F(Controller, TellsAgainWhatDidNotReachTheKeeper)
{
  backup(1);
  const auto plan = due();
  ASSERT_TRUE(plan);
  steering.not_sent();
  EXPECT_FALSE(steering.settled()) << "ask again";
  now += 100ms;
  EXPECT_EQ(due(), plan);
  EXPECT_TRUE(steering.settled());
  // Likewise when nothing is wanted any more: the keeper may have the plan before.
  steering.lapse(ecn);
  now += 100ms;
  ASSERT_EQ(due(), kernel::SteeringPlan {});
  steering.not_sent();
  now += 100ms;
  EXPECT_EQ(due(), kernel::SteeringPlan {});
}

// Another program had all endpoints that the kernel takes, and its own go without a word.
TEST_F(Controller, TellsAgainNowAndThenWhatWasNotCarriedOut)
{
  backup(1);
  const auto plan = due();
  ASSERT_TRUE(plan);
  kernel::SteeringState state {};
  now += 2min;
  EXPECT_FALSE(steering.again(state, now)) << "all of it was done";
  for (const kernel::SteeringState& not_done :
       { kernel::SteeringState { .refused = { { "endpoint 192.0.2.1", "the kernel refused: it takes no more" } } },
         kernel::SteeringState { .last_error = "read the MPTCP endpoints: no answer" } })
  {
    EXPECT_TRUE(steering.again(not_done, now));
    EXPECT_FALSE(steering.settled()) << "ask again";
    EXPECT_FALSE(steering.again(not_done, now)) << "it has not been given yet";
    EXPECT_EQ(due(), plan);
    EXPECT_TRUE(steering.settled());
    now += 59s;
    EXPECT_FALSE(steering.again(not_done, now));
    now += 1s;
  }
}

TEST_F(Controller, TellsWhenCellularMustNotBeUsedAnyMore)
{
  table = links::LinkTable { "wlan0", "wwan0" };
  table.apply(links::InterfaceNotification { .ifindex = 3, .name = "wwan0", .admin_up = true, .running = true },
              Tick {});
  table.apply(links::AddressNotification { .ifindex = 3, .address = { .bytes = { 192, 0, 2, 3 } } }, Tick {});
  steering.take({ .request = { RequestKind::mptcp_backup, Link::cell, 0 }, .slot = ecn, .why = "needed" });
  ASSERT_TRUE(due());
  EXPECT_FALSE(steering.gate(CellUse::allowed)) << "as it was";
  EXPECT_TRUE(steering.gate(CellUse::spent));
  now += 1s;
  const auto plan = due();
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->paths[0].endpoint);
  EXPECT_TRUE(plan->paths[0].backup);
}

TEST_F(Controller, WhereTheCardIsMostlyAwayFromIsABackupWhateverAModuleRequests)
{
  steering = SteeringController { { .setup = true } };
  backup(0);
  auto plan = due();
  ASSERT_TRUE(plan);
  const std::string interface = plan->paths.at(0).interface;
  EXPECT_FALSE(plan->paths[0].backup);
  steering.away({ interface, "another" });
  now += 1s;
  plan = due();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->paths.at(0).interface, interface);
  EXPECT_TRUE(plan->paths[0].backup);
  EXPECT_TRUE(plan->paths[0].endpoint);
  steering.away({});
  now += 1s;
  plan = due();
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->paths.at(0).backup);
}

TEST_F(Controller, TellsAtMostTenPlansASecondAndTheNewestAmongThem)
{
  backup(1);
  ASSERT_TRUE(due());
  backup(0);
  now += 50ms;
  EXPECT_FALSE(due());
  EXPECT_FALSE(steering.settled()) << "ask again";
  now += 50ms;
  const auto plan = due();
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->paths.at(0).backup);
  EXPECT_TRUE(steering.settled());
}

TEST_F(Controller, OfAModuleWithoutFlowsTheRequestsRest)
{
  module.flows = 1;
  EXPECT_FALSE(steering.look(ecn, module, now)) << "it requested nothing";
  backup(1);
  EXPECT_TRUE(steering.look(ecn, module, now));
  ASSERT_TRUE(due());
  module.flows = 0;
  now += 4s;
  steering.look(ecn, module, now);
  EXPECT_FALSE(due());
  now += 1s;
  steering.look(ecn, module, now);
  ASSERT_TRUE(due());
  module.flows = 1;
  now += 1s;
  steering.look(ecn, module, now);
  const auto plan = due();
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->paths.at(0).backup);
}

TEST_F(Controller, OfAModuleThatFailedTheRequestsLapse)
{
  module = { .flows = 1, .excluded = 2 };
  steering.look(ecn, module, now);
  backup(1);
  steering.look(ecn, module, now);
  EXPECT_TRUE(steering.requests().any(ecn)) << "it failed before it requested anything";
  module.excluded = 3;
  steering.look(ecn, module, now);
  EXPECT_FALSE(steering.requests().any(ecn));
}

TEST(KeepersNews, SteeringAloneIsNoReasonToLookAtTheLinks)
{
  kernel::KeeperState before {}, after {};
  EXPECT_FALSE(compare(before, after).steering_only);
  after.steering.plans = 1;
  EXPECT_TRUE(compare(before, after).steering_only);
  EXPECT_THAT(compare(before, after).warnings, IsEmpty());
  after.route.v4 = !before.route.v4;
  EXPECT_FALSE(compare(before, after).steering_only);
}

TEST(KeepersNews, AProblemIsSaidOnce)
{
  kernel::KeeperState before {}, after {};
  after.steering.mptcp_why = "no MPTCP in this kernel";
  after.steering.ce_why = "no nftables";
  EXPECT_THAT(compare(before, after).warnings,
              ElementsAre("steering: no MPTCP in this kernel", "steering: no nftables"));
  EXPECT_THAT(compare(after, after).warnings, IsEmpty());
  after.steering.ce_backend = "iptables-nft"; // another way was found
  EXPECT_THAT(compare(before, after).warnings, ElementsAre("steering: no MPTCP in this kernel"));
}

} // namespace
} // namespace tandem::daemon
