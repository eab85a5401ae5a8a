#include "src/daemon/link_requests.h"
#include "src/kernel/mptcp/mptcp_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

using namespace tandem::literals;
using kernel::SteeringPath;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint8_t ecn = 3, other_module = 4;

class Steering : public testing::Test
{
protected:
  void SetUp() override
  {
    add(1, "wlan0", 1);
    add(2, "wlan1", 2);
    add(3, "wwan0", 3);
  }
  void add(int ifindex, const std::string& name, std::uint8_t last)
  {
    table.apply(links::InterfaceNotification { .ifindex = ifindex, .name = name, .admin_up = true, .running = true },
                Tick {});
    table.apply(links::AddressNotification { .ifindex = ifindex, .address = { .bytes = { 192, 0, 2, last } } },
                Tick {});
  }
  void v6(int ifindex, std::uint8_t last, bool temporary, bool deprecated)
  {
    const Address address { .bytes = { 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last }, .v6 = true };
    table.apply(
        links::AddressNotification {
            .ifindex = ifindex, .address = address, .deprecated = deprecated, .temporary = temporary },
        Tick {});
  }
  void ce(double rate, Link link = wifi_link(1)) { requests.take({ RequestKind::ce_rate, link, rate }, ecn, "worse"); }
  void backup(double value, Link link = wifi_link(1), std::uint8_t slot = ecn)
  {
    requests.take({ RequestKind::mptcp_backup, link, value }, slot, "worse");
  }
  void endpoint(double value) { requests.take({ RequestKind::mptcp_endpoint, wifi_link(1), value }, ecn, "gone"); }
  // So many steps later.
  void steps(int count)
  {
    for (; count > 0; --count)
      requests.advance(now += 100ms);
  }
  kernel::SteeringPlan plan() const { return requests.plan(table); }

  links::LinkTable table { "wlan0", "wwan0", { "wlan1" } };
  LinkRequests requests { {} };
  Tick now { 10s };
};

TEST_F(Steering, NothingRequestedIsTheEmptyPlan)
{
  EXPECT_EQ(plan(), kernel::SteeringPlan {});
  EXPECT_TRUE(requests.settled());
}

TEST_F(Steering, MarksGrowAndShrinkInSteps)
{
  ce(0.025);
  EXPECT_FALSE(requests.settled());
  EXPECT_THAT(plan().ce, IsEmpty());
  steps(1);
  ASSERT_EQ(plan().ce.size(), 1u);
  EXPECT_EQ(plan().ce[0].interface, "wlan1");
  EXPECT_DOUBLE_EQ(plan().ce[0].rate, 0.01);
  requests.advance(now + 50ms);
  EXPECT_DOUBLE_EQ(requests.rate(wifi_link(1)), 0.01) << "not faster than a step in 100 ms";
  steps(1);
  EXPECT_DOUBLE_EQ(requests.rate(wifi_link(1)), 0.02);
  steps(1);
  EXPECT_DOUBLE_EQ(requests.rate(wifi_link(1)), 0.025);
  EXPECT_TRUE(requests.settled());
  ce(0);
  steps(2);
  EXPECT_NEAR(requests.rate(wifi_link(1)), 0.005, 1e-9);
  steps(1);
  EXPECT_TRUE(requests.settled());
  EXPECT_EQ(plan(), kernel::SteeringPlan {});
}

TEST_F(Steering, AfterALongRestThereIsOneStep)
{
  ce(0.05);
  requests.advance(now += 10s);
  EXPECT_DOUBLE_EQ(requests.rate(wifi_link(1)), 0.01);
}

TEST_F(Steering, TheNewestRequestOfAKindAndLinkCounts)
{
  backup(1);
  backup(1, Link::wifi);
  backup(0, Link::wifi);
  EXPECT_THAT(plan().paths, ElementsAre(SteeringPath { "wlan0", { "192.0.2.1" }, true, false },
                                        SteeringPath { "wlan1", { "192.0.2.2" }, true, true }));
  EXPECT_FALSE(plan().setup);
  backup(0, wifi_link(1), other_module);
  EXPECT_FALSE(plan().paths[1].backup);
}

TEST_F(Steering, AnEndpointGoesAndComesBack)
{
  endpoint(0);
  ASSERT_EQ(plan().paths.size(), 1u);
  EXPECT_FALSE(plan().paths[0].endpoint);
  endpoint(1);
  EXPECT_TRUE(plan().paths[0].endpoint);
}

TEST_F(Steering, WhereCellularMustNotBeUsedNoEndpointIsLeftThere)
{
  requests = LinkRequests { { .setup = true } };
  const auto cell = [this](CellUse use) { return requests.plan(table, use).paths[1]; };
  EXPECT_EQ(cell(CellUse::allowed), (SteeringPath { "wwan0", { "192.0.2.3" }, true, true, true }));
  EXPECT_EQ(cell(CellUse::spent), (SteeringPath { "wwan0", { "192.0.2.3" }, true, true, true }))
      << "the budget is of what modules request";
  EXPECT_EQ(cell(CellUse::denied), (SteeringPath { "wwan0", { "192.0.2.3" }, false, true, true }));
  backup(0, Link::cell);
  EXPECT_EQ(cell(CellUse::allowed), (SteeringPath { "wwan0", { "192.0.2.3" }, true, false, true }));
  EXPECT_EQ(cell(CellUse::spent), (SteeringPath { "wwan0", { "192.0.2.3" }, false, true, true }));
  EXPECT_EQ(cell(CellUse::denied), (SteeringPath { "wwan0", { "192.0.2.3" }, false, true, true }));
  EXPECT_TRUE(requests.plan(table, CellUse::denied).paths[0].endpoint) << "Wi-Fi's stays";
}

TEST_F(Steering, OneAddressOfTwoLinksIsNamedOnceAndNotWhereCellularMustNotBeUsed)
{
  requests = LinkRequests { { .setup = true } };
  add(3, "wwan0", 1); // two phones' hotspots; Wi-Fi has the address, too
  kernel::SteeringPlan both = plan();
  EXPECT_NO_THROW(kernel::validate(both));
  EXPECT_THAT(both.paths[0].addresses, ElementsAre("192.0.2.1"));
  EXPECT_THAT(both.paths[1].addresses, ElementsAre("192.0.2.3"));
  both = requests.plan(table, CellUse::denied);
  EXPECT_NO_THROW(kernel::validate(both));
  EXPECT_THAT(both.paths[0].addresses, IsEmpty());
  EXPECT_THAT(both.paths[1].addresses, ElementsAre("192.0.2.3", "192.0.2.1"));
  EXPECT_FALSE(both.paths[1].endpoint);
}

TEST_F(Steering, WithoutARequestNobodyHasToWatchWhatIsSetUp)
{
  requests = LinkRequests { { .setup = true } };
  const auto needs_attention = [](const kernel::SteeringPlan& its)
  {
    std::vector<kernel::MptcpEndpoint> endpoints {}; // as the plan makes them
    for (const SteeringPath& path : its.paths)
      for (const std::string& address : path.addresses)
        endpoints.push_back({ .address = address, .flags = path.backup ? 6u : 2u, .own = true });
    return kernel::needs_attention(its, {}, endpoints, {});
  };
  EXPECT_TRUE(plan().paths[1].backup);
  EXPECT_FALSE(needs_attention(plan()));
  EXPECT_TRUE(needs_attention(requests.plan(table, CellUse::allowed, { "wlan1" }))) << "the card comes and goes";
  backup(1, Link::cell);
  EXPECT_FALSE(needs_attention(plan())) << "as it would be without";
  backup(1);
  EXPECT_TRUE(needs_attention(plan()));
}

TEST_F(Steering, EndpointsAreOfAddressesThatNewConnectionsLeaveFrom)
{
  requests = LinkRequests { { .setup = true } };
  v6(1, 1, false, false);
  v6(1, 2, true, false);
  v6(1, 3, true, true);
  EXPECT_THAT(plan().paths[0].addresses, ElementsAre("192.0.2.1", "2001:db8::2"));
  EXPECT_THAT(plan().paths[0].deprecated, ElementsAre("2001:db8::3")) << "connections of before go on by it";
}

TEST_F(Steering, WithTheModuleItsRequestsLapseAtOnceAndNoOthers)
{
  ce(0.05);
  backup(1);
  backup(1, Link::wifi, other_module);
  steps(9);
  EXPECT_TRUE(requests.any(ecn));
  requests.lapse(ecn);
  EXPECT_FALSE(requests.any(ecn));
  EXPECT_TRUE(requests.settled()) << "no way down in steps";
  EXPECT_THAT(plan().ce, IsEmpty());
  EXPECT_THAT(plan().paths, ElementsAre(SteeringPath { "wlan0", { "192.0.2.1" }, true, true }));
}

TEST_F(Steering, SuspendedRequestsHaveNoForceUntilTheModuleIsBack)
{
  ce(0.01);
  backup(1);
  steps(3);
  requests.suspend(ecn, true);
  steps(3);
  EXPECT_EQ(plan(), kernel::SteeringPlan {});
  EXPECT_TRUE(requests.any(ecn));
  requests.suspend(ecn, false);
  steps(3);
  EXPECT_EQ(plan().ce.size(), 1u);
  EXPECT_TRUE(plan().paths[0].backup);
}

TEST_F(Steering, AnAbsentLinkIsInNoPlanAndBeginsWithoutMarks)
{
  ce(0.05);
  backup(1);
  steps(9);
  table.apply(links::InterfaceNotification { .ifindex = 2, .name = "wlan1", .gone = true }, now);
  requests.gone(wifi_link(1));
  EXPECT_EQ(plan(), kernel::SteeringPlan {});
  add(9, "wlan1", 9);
  EXPECT_THAT(plan().ce, IsEmpty());
  EXPECT_THAT(plan().paths, ElementsAre(SteeringPath { "wlan1", { "192.0.2.9" }, true, true }));
  steps(1);
  EXPECT_DOUBLE_EQ(plan().ce[0].rate, 0.01);
}

TEST_F(Steering, WhatCannotBeMeantIsNotTaken)
{
  ce(std::numeric_limits<double>::quiet_NaN());
  requests.take({ RequestKind::mptcp_backup, Link::other, 1 }, ecn, "");
  requests.take({ RequestKind::mptcp_backup, static_cast<Link>(200), 1 }, ecn, "");
  requests.take({ static_cast<RequestKind>(9), Link::wifi, 1 }, ecn, "");
  EXPECT_FALSE(requests.any(ecn));
  ce(7);
  steps(200);
  EXPECT_DOUBLE_EQ(requests.rate(wifi_link(1)), 1);
  ce(-7);
  steps(200);
  EXPECT_DOUBLE_EQ(requests.rate(wifi_link(1)), 0);
}

TEST_F(Steering, ARoamIsAStateThatNoPlanOfTheKeepersHas)
{
  requests.take({ RequestKind::roam, Link::wifi, 1 }, ecn, "a handoff is near");
  ASSERT_TRUE(requests.of(Link::wifi, RequestKind::roam));
  EXPECT_EQ(requests.of(Link::wifi, RequestKind::roam)->value, 1);
  EXPECT_EQ(plan(), kernel::SteeringPlan {});
  requests.suspend(ecn, true);
  EXPECT_FALSE(requests.of(Link::wifi, RequestKind::roam)) << "without a flow the module cannot take it back";
  requests.suspend(ecn, false);
  requests.lapse(ecn);
  EXPECT_FALSE(requests.of(Link::wifi, RequestKind::roam));
}

TEST_F(Steering, SetUpMakesEndpointsOfAllLinksTheCellularOneABackup)
{
  requests = LinkRequests { { .setup = true, .foreign = true } };
  EXPECT_TRUE(plan().setup);
  EXPECT_TRUE(plan().foreign);
  EXPECT_THAT(plan().paths, ElementsAre(SteeringPath { "wlan0", { "192.0.2.1" }, true, false },
                                        SteeringPath { "wwan0", { "192.0.2.3" }, true, true, true },
                                        SteeringPath { "wlan1", { "192.0.2.2" }, true, false }));
  backup(0, Link::cell);
  EXPECT_FALSE(plan().paths[1].backup);
}

} // namespace
} // namespace tandem::daemon
