#include "src/kernel/mptcp/mptcp_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::kernel
{
namespace
{

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::uint32_t subflow = mptcp_flag::subflow, backup = mptcp_flag::backup;
const std::string wlan = "192.0.2.1", cell = "198.51.100.1";

MptcpEndpoint endpoint(const std::string& address, std::uint8_t id, int ifindex, std::uint32_t flags = subflow)
{
  MptcpEndpoint one {};
  one.address = address;
  one.id = id;
  one.ifindex = ifindex;
  one.flags = flags;
  return one;
}

SteeringPath path(const std::string& interface, const std::string& address, bool there = true, bool is_backup = false)
{
  return { .interface = interface, .addresses = { address }, .endpoint = there, .backup = is_backup };
}

// "add 192.0.2.1", one a step.
std::vector<std::string> words(const MptcpChange& change)
{
  std::vector<std::string> all {};
  for (const MptcpStep& step : change.steps)
    switch (step.kind)
    {
    case MptcpStep::Kind::limits:
      all.push_back("limits " + std::to_string(step.limits.subflows) + " " + std::to_string(step.limits.add_addr));
      break;
    case MptcpStep::Kind::add:
      all.push_back("add " + step.endpoint.address + (step.endpoint.backup() ? " backup" : ""));
      break;
    case MptcpStep::Kind::backup:
      all.push_back(std::string { step.backup ? "backup " : "no backup " } + step.endpoint.address);
      break;
    case MptcpStep::Kind::remove:
      all.push_back("remove " + step.endpoint.address);
      break;
    }
  return all;
}

struct World
{
  PathManagerView view { .endpoints = {},
                         .limits = { 2, 0 },
                         .interfaces = { { "wlan0", 3 }, { "wwan0", 4 } },
                         .subflows = std::vector<MptcpSubflow> {} };
  UndoJournal journal {};

  MptcpChange change(const SteeringPlan& plan) const { return mptcp_change(plan, view, journal); }
  void own(const MptcpEndpoint& one)
  {
    view.endpoints.push_back(one);
    journal.own.push_back({ .address = one.address, .ifindex = one.ifindex, .id = one.id });
  }
};

SteeringPlan both(bool wlan_backup = false, bool cell_backup = false)
{
  return { .ce = {},
           .paths = { path("wlan0", wlan, true, wlan_backup), path("wwan0", cell, true, cell_backup) },
           .setup = true };
}

TEST(MptcpSteps, SetsUpAndIsThenContent)
{
  World world {};
  MptcpChange change = world.change(both(false, true));
  EXPECT_THAT(words(change), ElementsAre("add " + wlan, "add " + cell + " backup"));
  EXPECT_EQ(change.steps[0].endpoint.ifindex, 3);
  // Noted before it is done.
  EXPECT_EQ(change.journal.own.size(), 2u);
  EXPECT_EQ(change.journal.own[0].id, 0);
  world.own(endpoint(wlan, 1, 3));
  world.own(endpoint(cell, 2, 4, subflow | backup));
  change = world.change(both(false, true));
  EXPECT_THAT(words(change), IsEmpty());
  EXPECT_EQ(change.journal, world.journal);
  EXPECT_THAT(words(world.change(both(true, false))), ElementsAre("backup " + wlan, "no backup " + cell));
  EXPECT_THAT(words(world.change({})), ElementsAre("remove " + wlan, "remove " + cell));
}

// Links as a laptop has them with IPv4 and IPv6: "10.0.N.2" and "2001:db8::N".
SteeringPlan dual_stack(World& world, int links)
{
  SteeringPlan plan { .ce = {}, .paths = {}, .setup = true };
  for (int number = 1; number <= links; ++number)
  {
    const std::string interface = "wlan" + std::to_string(number), digit = std::to_string(number);
    world.view.interfaces[interface] = 10 + number;
    plan.paths.push_back(
        { .interface = interface, .addresses = { "10.0." + digit + ".2", "2001:db8::" + digit }, .endpoint = true });
  }
  return plan;
}

TEST(MptcpSteps, EachLinkHasAnEndpointBeforeAnyHasTwo)
{
  World world {};
  world.view.limits = { 8, 0 };
  SteeringPlan plan = dual_stack(world, 6);
  MptcpChange change = world.change(plan);
  EXPECT_THAT(words(change),
              testing::UnorderedElementsAre("add 10.0.1.2", "add 10.0.2.2", "add 10.0.3.2", "add 10.0.4.2",
                                            "add 10.0.5.2", "add 10.0.6.2", "add 2001:db8::1", "add 2001:db8::2"));
  ASSERT_EQ(change.refused.size(), 4u);
  EXPECT_EQ(change.refused[0].what, "endpoint 2001:db8::3");
  EXPECT_THAT(change.refused[0].why, testing::HasSubstr("the kernel takes 8"));

  // The place of one that is away for a while is not given to another link's second address.
  plan.paths[0].endpoint = false;
  change = world.change(plan);
  EXPECT_THAT(words(change), testing::Not(testing::Contains("add 2001:db8::3")));
  EXPECT_EQ(words(change).size(), 6u);
}

TEST(MptcpSteps, EndpointsOfOthersTakeRoom)
{
  World world {};
  world.view.limits = { 8, 0 };
  const SteeringPlan plan = dual_stack(world, 4);
  world.view.endpoints = { endpoint("203.0.113.1", 1, 4), endpoint("10.0.1.2", 2, 11) };
  const MptcpChange change = world.change(plan);
  EXPECT_THAT(words(change), testing::UnorderedElementsAre("add 10.0.2.2", "add 10.0.3.2", "add 10.0.4.2",
                                                           "add 2001:db8::1", "add 2001:db8::2", "add 2001:db8::3"));
}

TEST(MptcpSteps, WithoutSetupNothingIsMade)
{
  World world {};
  SteeringPlan plan = both(true);
  plan.setup = false;
  const MptcpChange change = world.change(plan);
  EXPECT_THAT(words(change), IsEmpty());
  ASSERT_EQ(change.refused.size(), 1u);
  EXPECT_EQ(change.refused[0].what, "backup of " + wlan);
  EXPECT_THAT(change.refused[0].why, testing::HasSubstr("mptcp.setup"));
}

TEST(MptcpSteps, WhatOthersMadeIsLeft)
{
  World world {};
  world.view.endpoints = { endpoint(wlan, 1, 3), endpoint("203.0.113.9", 2, 0) };
  world.view.limits = { 3, 0 };
  SteeringPlan plan = both(true);
  plan.paths[0].endpoint = false;
  const MptcpChange change = world.change(plan);
  EXPECT_THAT(words(change), ElementsAre("add " + cell));
  ASSERT_EQ(change.refused.size(), 2u); // its removal, its flag
  EXPECT_THAT(change.refused[1].why, testing::HasSubstr("mptcp.foreign"));
  EXPECT_THAT(words(world.change({})), IsEmpty());
}

TEST(MptcpSteps, AnEndpointLikeOursIsNotOurs)
{
  // Same address as one in the note, but of another id: somebody deleted ours and made their own.
  World world {};
  world.own(endpoint(wlan, 1, 3));
  world.view.endpoints[0].id = 5;
  EXPECT_THAT(words(world.change({})), IsEmpty());
  world.view.endpoints[0] = endpoint(wlan, 1, 9);
  EXPECT_THAT(words(world.change({})), IsEmpty());
  // Killed between note and id: ours only while it looks as it was made.
  world.journal.own[0].id = 0;
  world.view.endpoints[0] = endpoint(wlan, 5, 3);
  EXPECT_THAT(words(world.change({})), ElementsAre("remove " + wlan));
  world.view.endpoints[0].flags = subflow | mptcp_flag::fullmesh;
  EXPECT_THAT(words(world.change({})), IsEmpty());
}

TEST(MptcpSteps, AForeignFlagIsNotedAndPutBack)
{
  World world {};
  world.view.endpoints = { endpoint(wlan, 7, 3) };
  SteeringPlan plan { .ce = {}, .paths = { path("wlan0", wlan, true, true) }, .setup = false, .foreign = true };
  MptcpChange change = world.change(plan);
  EXPECT_THAT(words(change), ElementsAre("backup " + wlan));
  EXPECT_THAT(change.journal.flags,
              ElementsAre(UndoJournal::Flag { .address = wlan, .id = 7, .before = false, .set = true }));
  world.journal = change.journal;
  world.view.endpoints[0].flags |= backup;
  EXPECT_THAT(words(world.change(plan)), IsEmpty());
  EXPECT_EQ(world.change(plan).journal, world.journal);
  change = world.change({});
  EXPECT_THAT(words(change), ElementsAre("no backup " + wlan));
  EXPECT_EQ(change.journal, world.journal); // until it is done
  // Leave withdrawn: put back as well, and the request refused.
  plan.foreign = false;
  change = world.change(plan);
  EXPECT_THAT(words(change), ElementsAre("no backup " + wlan));
  EXPECT_EQ(change.refused.size(), 1u);
}

TEST(MptcpSteps, WhoChangesTheFlagMeanwhileWins)
{
  World world {};
  world.view.endpoints = { endpoint(wlan, 7, 3) }; // cleared by hand
  world.journal.flags = { { .address = wlan, .id = 7, .before = false, .set = true } };
  const SteeringPlan plan { .ce = {}, .paths = { path("wlan0", wlan, true, true) }, .setup = false, .foreign = true };
  MptcpChange change = world.change(plan);
  EXPECT_THAT(words(change), IsEmpty());
  EXPECT_EQ(change.refused.size(), 1u);
  EXPECT_EQ(change.journal, world.journal);
  change = world.change({});
  EXPECT_THAT(words(change), IsEmpty());
  EXPECT_TRUE(change.journal.empty());
}

TEST(MptcpSteps, TheUsersOwnBackupStays)
{
  World world {};
  world.view.endpoints = { endpoint(wlan, 7, 3, subflow | backup) };
  for (bool wanted : { true, false })
    for (bool foreign : { true, false })
    {
      const SteeringPlan plan {
        .ce = {}, .paths = { path("wlan0", wlan, true, wanted) }, .setup = true, .foreign = foreign
      };
      EXPECT_THAT(words(world.change(plan)), IsEmpty());
      EXPECT_THAT(world.change(plan).refused, IsEmpty());
      EXPECT_TRUE(world.change(plan).journal.empty());
    }
}

TEST(MptcpSteps, LimitsOnlyRise)
{
  World world {};
  world.view.limits = { 1, 3 };
  MptcpChange change = world.change(both());
  EXPECT_THAT(words(change), ElementsAre("limits 2 3", "add " + wlan, "add " + cell));
  ASSERT_TRUE(change.journal.limit);
  EXPECT_EQ(change.journal.limit->before, (MptcpLimits { 1, 3 }));
  world.journal.limit = change.journal.limit;
  world.view.limits = { 2, 3 };
  EXPECT_THAT(words(world.change({})), ElementsAre("limits 1 3"));
  EXPECT_EQ(world.change(both()).journal.limit, world.journal.limit);
  world.view.limits = { 5, 3 }; // by somebody else
  EXPECT_THAT(words(world.change({})), IsEmpty());
  EXPECT_FALSE(world.change({}).journal.limit);
  world.view.limits = { 8, 8 };
  world.journal = {};
  EXPECT_THAT(words(world.change(both())), ElementsAre("add " + wlan, "add " + cell));
}

TEST(MptcpSteps, AnInterfaceMadeAnewGetsItsEndpointAnew)
{
  World world {};
  world.own(endpoint(wlan, 1, 2));
  EXPECT_THAT(words(world.change(both())), ElementsAre("remove " + wlan, "add " + wlan, "add " + cell));
  world.view.interfaces.erase("wlan0");
  const MptcpChange change = world.change(both());
  EXPECT_THAT(words(change), ElementsAre("add " + cell, "remove " + wlan));
  ASSERT_EQ(change.refused.size(), 1u);
  EXPECT_THAT(change.refused[0].why, testing::HasSubstr("no interface wlan0"));
}

TEST(MptcpSteps, AnotherAddressComesBeforeTheOldOneGoes)
{
  World world {};
  world.own(endpoint("192.0.2.77", 1, 3));
  const SteeringPlan plan { .ce = {}, .paths = { path("wlan0", wlan) }, .setup = true };
  EXPECT_THAT(words(world.change(plan)), ElementsAre("add " + wlan, "remove 192.0.2.77"));
}

// The day's temporary address of a host with privacy extensions, and the one of the day before.
struct AnotherDay : World
{
  AnotherDay()
  {
    own(endpoint(before, 1, 3));
    plan.paths[0].deprecated = { before };
  }
  const std::string before = "2001:db8::1", today = "2001:db8::2";
  SteeringPlan plan { .ce = {}, .paths = { path("wlan0", today) }, .setup = true };
};

TEST(MptcpSteps, ADeprecatedAddressKeepsItsEndpointWhileSubflowsLeaveFromIt)
{
  AnotherDay world {};
  world.view.subflows = { { { 7, world.before, true }, { 7, world.today, false } } };
  EXPECT_THAT(words(world.change(world.plan)), ElementsAre("add " + world.today));
  world.own(endpoint(world.today, 2, 3));
  const MptcpChange change = world.change(world.plan);
  EXPECT_THAT(words(change), IsEmpty());
  EXPECT_THAT(change.refused, IsEmpty());
  EXPECT_EQ(change.journal.own.size(), 2u);
  // Nobody's any more, gone from the link, or the link is not to be used.
  World idle = world;
  idle.view.subflows = { { { 7, world.today, true } } };
  EXPECT_THAT(words(idle.change(world.plan)), ElementsAre("remove " + world.before));
  SteeringPlan plan = world.plan;
  plan.paths[0].deprecated.clear();
  EXPECT_THAT(words(world.change(plan)), ElementsAre("remove " + world.before));
  plan = world.plan;
  plan.paths[0].endpoint = false;
  world.view.subflows->push_back({ 7, cell, false });
  EXPECT_THAT(words(world.change(plan)), UnorderedElementsAre("remove " + world.before, "remove " + world.today));
}

TEST(MptcpSteps, ADeprecatedAddressGetsNoEndpoint)
{
  AnotherDay world {};
  world.view.endpoints.clear();
  world.journal = {};
  EXPECT_THAT(words(world.change(world.plan)), ElementsAre("add " + world.today));
}

TEST(MptcpSteps, DeprecatedAddressesLeaveRoomForTheNextOne)
{
  AnotherDay world {};
  world.view.limits = { 8, 0 };
  world.own(endpoint(world.today, 2, 3));
  world.view.subflows = { { { 7, world.today, true }, { 7, world.before, false } } };
  for (std::uint8_t day = 3; day <= 8; ++day)
  {
    const std::string address = "2001:db8::" + std::to_string(day);
    world.own(endpoint(address, day, 3));
    world.view.subflows->push_back({ 7, address, false });
    world.plan.paths[0].deprecated.push_back(address);
  }
  EXPECT_THAT(words(world.change(world.plan)), ElementsAre("remove 2001:db8::8")) << "eight there are, in all";
}

TEST(MptcpSteps, TheKernelsOwnAreNobodys)
{
  // It makes an implicit one for a subflow's address; ours replaces it.
  World world {};
  world.view.endpoints = { endpoint(wlan, 1, 3, 16) };
  const SteeringPlan plan { .ce = {}, .paths = { path("wlan0", wlan) }, .setup = true };
  EXPECT_THAT(words(world.change(plan)), ElementsAre("add " + wlan));
  EXPECT_THAT(words(world.change({})), IsEmpty());
}

// Both links have an endpoint, and that of Wi-Fi is to be removed.
struct WifiGoes : World
{
  WifiGoes()
  {
    own(endpoint(wlan, 1, 3));
    own(endpoint(cell, 2, 4));
    plan.paths[0].endpoint = false;
  }
  SteeringPlan plan = both();
};

TEST(MptcpSteps, NoConnectionLosesItsOnlySubflow)
{
  WifiGoes world {};
  // By Wi-Fi alone; then joined by cell; then one more that is not.
  world.view.subflows = { { { 7, wlan, true } } };
  MptcpChange change = world.change(world.plan);
  EXPECT_THAT(words(change), IsEmpty());
  ASSERT_EQ(change.refused.size(), 1u);
  EXPECT_EQ(change.refused[0].what, "removal of the endpoint " + wlan);
  EXPECT_EQ(change.journal, world.journal); // still to be removed one day
  world.view.subflows = { { { 7, wlan, true }, { 7, cell, false } } };
  EXPECT_THAT(words(world.change(world.plan)), ElementsAre("remove " + wlan));
  world.view.subflows = { { { 7, wlan, true }, { 7, cell, false }, { 8, wlan, true } } };
  EXPECT_THAT(words(world.change(world.plan)), IsEmpty());
  // By an address of nobody's concern it lives on.
  world.view.subflows = { { { 7, wlan, true }, { 7, "203.0.113.9", false } } };
  EXPECT_THAT(words(world.change({})), ElementsAre("remove " + cell, "remove " + wlan));
}

// Cellular must not be used any more, and a download has no other subflow: it goes on there, and nobody else does.
TEST(MptcpSteps, WhatHasToStayOnALinkThatMustNotBeUsedIsABackup)
{
  World world {};
  world.own(endpoint(wlan, 1, 3));
  world.own(endpoint(cell, 2, 4));
  SteeringPlan plan = both(false, true);
  plan.paths[1].endpoint = false;
  world.view.subflows = { { { 7, cell, true }, { 8, wlan, true }, { 8, cell, false } } };
  EXPECT_THAT(words(world.change(plan)), ElementsAre("backup " + cell));
  world.view.endpoints[1].flags |= backup;
  EXPECT_THAT(words(world.change(plan)), IsEmpty()) << "it stays one";
}

TEST(MptcpSteps, WhatThePeerMayNotHaveKeepsNoConnection)
{
  // A server that has closed refuses a join, and until its reset is here the subflow is established on this host alone.
  WifiGoes world {};
  world.view.subflows = { { { 7, wlan, true }, { 7, cell, false, false } } };
  const MptcpChange change = world.change(world.plan);
  EXPECT_THAT(words(change), IsEmpty());
  ASSERT_EQ(change.refused.size(), 1u);
  EXPECT_THAT(change.refused[0].why, testing::HasSubstr("would stall"));
}

TEST(MptcpSteps, FirstSubflowsOfConnectionsThatLiveOnAreReset)
{
  const std::string other = "203.0.113.9";
  const std::vector<MptcpSubflow> subflows { { 7, wlan, true, true, { .cookie = 71 } }, // opened by it
                                             { 7, cell, false, true, { .cookie = 72 } },
                                             { 8, other, true, true, { .cookie = 81 } }, // joined by it
                                             { 8, wlan, false, true, { .cookie = 82 } },
                                             { 9, wlan, true, true, { .cookie = 91 } } }; // has no other
  const RemovalCost cost = removal_cost(wlan, {}, subflows);
  EXPECT_EQ(cost.stalled, 1u);
  EXPECT_THAT(cost.half_closed, ElementsAre(TcpSocketName { .cookie = 71 }));
  EXPECT_EQ(removal_cost(wlan, { cell }, subflows).stalled, 2u);
  EXPECT_EQ(removal_cost("192.0.2.200", {}, subflows).stalled, 0u);
}

TEST(MptcpSteps, AtTheEndTheWayByWhichConnectionsWereOpenedStays)
{
  World world {};
  world.own(endpoint(wlan, 1, 3, subflow | backup));
  world.own(endpoint(cell, 2, 4));
  world.view.subflows = { { { 7, wlan, true }, { 7, cell, false } } };
  const MptcpChange change = world.change({});
  EXPECT_THAT(words(change), ElementsAre("no backup " + wlan, "remove " + cell));
  EXPECT_EQ(change.refused.size(), 1u);
  world.view.subflows.reset(); // unknown
  EXPECT_THAT(words(world.change({})), ElementsAre("no backup " + wlan));
  EXPECT_EQ(world.change({}).refused.size(), 2u);
}

TEST(MptcpSteps, OneAddressOnTwoLinksIsOneEndpoint)
{
  World world {};
  world.view.limits = { 8, 0 };
  const SteeringPlan plan { .ce = {}, .paths = { path("wlan0", wlan), path("wwan0", wlan) }, .setup = true };
  const MptcpChange change = world.change(plan);
  EXPECT_THAT(words(change), ElementsAre("add " + wlan));
  EXPECT_EQ(change.steps[0].endpoint.ifindex, 3) << "of the link that names it first";
  ASSERT_EQ(change.refused.size(), 1u);
  EXPECT_EQ(change.refused[0].what, "endpoint " + wlan + " of wwan0");
}

TEST(MptcpSteps, WhatTheSettingsAskForNeedsNobodysAttention)
{
  const std::vector<MptcpEndpoint> endpoints = [&]
  {
    std::vector<MptcpEndpoint> all { endpoint(wlan, 1, 3), endpoint(cell, 2, 4, subflow | backup) };
    for (MptcpEndpoint& one : all)
      one.own = true;
    return all;
  }();
  SteeringPlan plan = both(false, true);
  EXPECT_TRUE(needs_attention(plan, {}, endpoints, {})) << "as far as is known a module asked for it";
  plan.paths[1].backup_stays = true;
  EXPECT_FALSE(needs_attention(plan, {}, endpoints, {}));
  EXPECT_TRUE(needs_attention(plan, { { "wlan0", 0.01 } }, endpoints, {}));
  EXPECT_TRUE(needs_attention({}, {}, endpoints, {})) << "one that could not be removed";
  UndoJournal journal {};
  journal.flags = { { .address = cell, .id = 2, .before = false, .set = true } };
  EXPECT_FALSE(needs_attention(plan, {}, {}, journal));
  journal.flags[0].address = wlan;
  EXPECT_TRUE(needs_attention(plan, {}, {}, journal));

  plan.ce = { { "wlan0", 0.01 } };
  plan.paths[0].backup = true;
  EXPECT_EQ(unattended(plan).paths[0].backup, false);
  EXPECT_EQ(unattended(plan).paths[1].backup, true);
  EXPECT_THAT(unattended(plan).ce, IsEmpty());
}

TEST(MptcpSteps, LinkLocalAddressesLeadNowhere)
{
  World world {};
  const SteeringPlan plan { .ce = {}, .paths = { path("wlan0", "fe80::1") }, .setup = true };
  EXPECT_THAT(words(world.change(plan)), IsEmpty());
  EXPECT_EQ(world.change(plan).refused.size(), 1u);
}

} // namespace
} // namespace tandem::kernel
