#include "src/daemon/fetch_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::daemon
{
namespace
{

using namespace tandem::literals;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint8_t slot = 1;

fetch::Job job(std::uint64_t flow, std::uint32_t from, std::uint32_t to)
{
  return { .flow = flow, .slot = slot, .fetch = { .from = Seq { from }, .to = Seq { to }, .deadline = Tick { 10s } } };
}

fetch::Answer answer(const fetch::Job& asked, bool ok = true)
{
  const auto size = static_cast<std::size_t>(asked.fetch.to - asked.fetch.from);
  return { .job = asked,
           .result = { .from = asked.fetch.from, .to = asked.fetch.to, .ok = ok },
           .cell_bytes = 70,
           .bytes = std::vector<std::byte>(ok ? size : 0) };
}

TEST(FetchStore, WhatWasAskedForIsHeldUntilAcknowledged)
{
  flow::Table flows { {} };
  flow::Flow& flow = *flows.insert({ .local_port = 1 }, Tick {});
  flow.view.rcv_nxt = Seq { 1000 };
  FetchStore store { 4096 };
  const fetch::Job asked = job(flow.view.id, 2000, 3000);
  ASSERT_TRUE(store.ask(asked));
  EXPECT_EQ(store.under_way(), 1u);
  const auto outcome = store.take(answer(asked));
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->result.ok);
  EXPECT_EQ(outcome->flow, flow.view.id);
  EXPECT_EQ(outcome->slot, slot);
  EXPECT_EQ(outcome->cell_bytes, 70u);
  EXPECT_EQ(store.under_way(), 0u);
  EXPECT_EQ(store.held_bytes(), 1000u);

  EXPECT_NE(store.find(flow.view.id, Seq { 2000 }, 1000), nullptr);
  EXPECT_NE(store.find(flow.view.id, Seq { 2500 }, 500), nullptr);
  EXPECT_EQ(store.find(flow.view.id, Seq { 2500 }, 501), nullptr) << "beyond what came";
  EXPECT_EQ(store.find(flow.view.id, Seq { 1999 }, 10), nullptr) << "before it";
  EXPECT_EQ(store.find(flow.view.id + 1, Seq { 2000 }, 10), nullptr) << "another flow's";

  store.forget_acknowledged(flows);
  EXPECT_EQ(store.held_bytes(), 1000u);
  flow.view.rcv_nxt = Seq { 3000 };
  store.forget_acknowledged(flows);
  EXPECT_EQ(store.held_bytes(), 0u);
  EXPECT_EQ(store.find(flow.view.id, Seq { 2000 }, 1000), nullptr);
}

TEST(FetchStore, WithTheFlowItsBytesGo)
{
  flow::Table flows { {} };
  FetchStore store { 4096 };
  ASSERT_TRUE(store.ask(job(77, 2000, 3000)));
  ASSERT_TRUE(store.take(answer(job(77, 2000, 3000))));
  store.forget_acknowledged(flows);
  EXPECT_EQ(store.held_bytes(), 0u);
}

TEST(FetchStore, BytesBeyondTheLimitAreNotHeld)
{
  FetchStore store { 1500 };
  ASSERT_TRUE(store.ask(job(1, 0, 1000)));
  ASSERT_TRUE(store.ask(job(1, 1000, 2000)));
  EXPECT_TRUE(store.take(answer(job(1, 0, 1000)))->result.ok);
  const auto second = store.take(answer(job(1, 1000, 2000)));
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->result.ok);
  EXPECT_EQ(second->result.why, "too much is held");
  EXPECT_FALSE(second->result.final) << "there may be room later";
  EXPECT_EQ(second->cell_bytes, 70u) << "they were paid for";
  EXPECT_EQ(store.held_bytes(), 1000u);
}

TEST(FetchStore, AnAnswerThatNobodyWaitsForIsNone)
{
  FetchStore store { 4096 };
  EXPECT_FALSE(store.take(answer(job(1, 0, 1000))));
  ASSERT_TRUE(store.ask(job(1, 0, 1000)));
  EXPECT_FALSE(store.take(answer(job(1, 0, 999)))) << "another piece";
  EXPECT_TRUE(store.take(answer(job(1, 0, 1000), false)));
  EXPECT_FALSE(store.take(answer(job(1, 0, 1000)))) << "the second of one";
  EXPECT_EQ(store.held_bytes(), 0u);
}

TEST(FetchStore, GivesUpHalfAMinuteAfterTheDeadline)
{
  FetchStore store { 4096 };
  ASSERT_TRUE(store.ask(job(1, 0, 1000)));
  EXPECT_THAT(store.give_up(Tick { 40s }), IsEmpty());
  const auto gone = store.give_up(Tick { 40s + 1ms });
  ASSERT_THAT(gone, SizeIs(1));
  EXPECT_FALSE(gone[0].result.ok);
  EXPECT_FALSE(gone[0].result.final);
  EXPECT_EQ(gone[0].result.why, "no answer");
  EXPECT_GE(gone[0].cell_bytes, 1000u) << "they may have been spent";
  EXPECT_EQ(gone[0].result.from, Seq { 0 });
  EXPECT_EQ(gone[0].result.to, Seq { 1000 });
  EXPECT_EQ(store.under_way(), 0u);
}

TEST(FetchStore, ClearingEndsEverythingForGood)
{
  FetchStore store { 4096 };
  ASSERT_TRUE(store.ask(job(1, 0, 1000)));
  ASSERT_TRUE(store.take(answer(job(1, 0, 1000))));
  ASSERT_TRUE(store.ask(job(2, 0, 1000)));
  const auto gone = store.clear("the links have changed");
  ASSERT_THAT(gone, SizeIs(1));
  EXPECT_EQ(gone[0].flow, 2u);
  EXPECT_TRUE(gone[0].result.final);
  EXPECT_EQ(gone[0].result.why, "the links have changed");
  EXPECT_GE(gone[0].cell_bytes, 1000u) << "they may have been spent";
  EXPECT_EQ(store.held_bytes(), 0u);
  EXPECT_EQ(store.under_way(), 0u);
}

TEST(FetchStore, TooManyAtATimeAreRefused)
{
  FetchStore store { 4096 };
  for (std::uint32_t i = 0; i < 256; ++i)
    ASSERT_TRUE(store.ask(job(1, i, i + 1)));
  EXPECT_FALSE(store.ask(job(1, 300, 301)));
}

} // namespace
} // namespace tandem::daemon
