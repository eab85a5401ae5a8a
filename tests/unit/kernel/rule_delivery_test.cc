#include "src/kernel/keeper/rule_delivery.h"
#include "src/kernel/keeper/tickets.h"

#include <tandem/module.h>

#include <gtest/gtest.h>

#include <vector>

namespace tandem::kernel
{
namespace
{

using namespace std::chrono_literals;

RulePlan plan_for(std::uint32_t traffic)
{
  RulePlan plan {};
  plan.traffic = traffic;
  plan.wifi = "wlan0";
  return plan;
}

const RulePlan acks = plan_for(traffic::egress_pure_ack);
const RulePlan everything = plan_for(traffic::egress_pure_ack | traffic::ingress_data);
const std::string failure = "nft: no such chain";

TEST(RuleDelivery, nothing_is_wanted_at_first_and_that_is_in_force)
{
  const RuleDelivery rules {};
  EXPECT_TRUE(rules.in_force());
  EXPECT_FALSE(rules.due(Tick { 1h }));
}

TEST(RuleDelivery, a_plan_is_in_force_when_it_is_acknowledged_and_not_before)
{
  RuleDelivery rules {};
  EXPECT_TRUE(rules.want(acks));
  rules.posted(1);
  EXPECT_FALSE(rules.in_force());
  EXPECT_EQ(rules.why(), "");
  EXPECT_FALSE(rules.want(acks));
  rules.answered(1, "", Tick { 1s });
  EXPECT_TRUE(rules.in_force());
}

TEST(RuleDelivery, a_failed_plan_is_tried_again_after_one_second_doubling_to_a_minute)
{
  RuleDelivery rules {};
  rules.want(acks);
  rules.posted(1);
  Tick now { 100s };
  std::vector<double> pauses {};
  for (std::uint64_t ticket = 1; ticket <= 9; ++ticket)
  {
    rules.answered(ticket, failure, now);
    EXPECT_FALSE(rules.in_force());
    EXPECT_EQ(rules.why(), failure);
    EXPECT_FALSE(rules.due(rules.next() - 1ms));
    EXPECT_TRUE(rules.due(rules.next()));
    pauses.push_back(seconds(rules.next() - now));
    now = rules.next();
    rules.posted(ticket + 1);
    EXPECT_FALSE(rules.due(now + 1h)) << "the answer is awaited";
  }
  EXPECT_EQ(pauses, (std::vector<double> { 1, 2, 4, 8, 16, 32, 60, 60, 60 }));
  rules.answered(10, "", now);
  EXPECT_TRUE(rules.in_force());
  EXPECT_EQ(rules.why(), "");
  EXPECT_FALSE(rules.due(now + 1h));
}

TEST(RuleDelivery, success_and_a_new_plan_begin_the_back_off_anew)
{
  RuleDelivery rules {};
  rules.want(acks);
  const auto fail_twice = [&](std::uint64_t ticket)
  {
    rules.posted(ticket);
    rules.answered(ticket, failure, Tick { 10s });
    EXPECT_EQ(rules.next(), Tick { 11s });
    rules.posted(ticket + 1);
    rules.answered(ticket + 1, failure, Tick { 20s });
    EXPECT_EQ(rules.next(), Tick { 22s });
  };
  fail_twice(1);
  EXPECT_TRUE(rules.want(everything));
  EXPECT_EQ(rules.why(), "") << "the reason was the other plan's";
  EXPECT_FALSE(rules.due(Tick { 1h })) << "it is posted at once, not when the other one was due";
  fail_twice(3);
  rules.posted(5);
  rules.answered(5, "", Tick { 30s });
  EXPECT_TRUE(rules.want(acks));
  fail_twice(6);
}

TEST(RuleDelivery, the_answer_to_an_earlier_plan_says_nothing_of_this_one)
{
  RuleDelivery rules {};
  rules.want(acks);
  rules.posted(1);
  rules.want(everything);
  rules.posted(2);
  rules.answered(1, "", Tick { 1s });
  EXPECT_FALSE(rules.in_force());
  rules.answered(1, failure, Tick { 1s });
  EXPECT_EQ(rules.why(), "");
  rules.answered(2, "", Tick { 1s });
  EXPECT_TRUE(rules.in_force());
}

TEST(RuleDelivery, a_plan_that_was_in_force_before_a_failed_one_is_posted_again)
{
  // What failed may have been carried out in part.
  RuleDelivery rules {};
  rules.want(acks);
  rules.posted(1);
  rules.answered(1, "", Tick { 1s });
  rules.want(everything);
  rules.posted(2);
  rules.answered(2, failure, Tick { 2s });
  EXPECT_TRUE(rules.want(acks));
  EXPECT_FALSE(rules.in_force());
}

TEST(KeeperTickets, an_order_that_could_not_be_sent_hides_no_outcome_of_an_earlier_one)
{
  Tickets tickets {};
  const std::uint64_t rules = tickets.next_apply(), steering = tickets.next();
  tickets.settle(steering, "the keeper does not keep up");
  EXPECT_TRUE(tickets.settled(steering));
  EXPECT_FALSE(tickets.take_outcome());
  tickets.settle(rules, "");
  const auto outcome = tickets.take_outcome();
  ASSERT_TRUE(outcome) << "or the rules would never count as in force";
  EXPECT_EQ(outcome->ticket, rules);
  EXPECT_EQ(outcome->failure, "");
  EXPECT_FALSE(tickets.take_outcome());
}

} // namespace
} // namespace tandem::kernel
