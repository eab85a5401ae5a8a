#include "src/flow/table.h"

#include <tandem/module.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace tandem::flow
{
namespace
{

using namespace literals;

Tick at(Duration since_start)
{
  return Tick { since_start };
}

FlowKey key(std::uint32_t n)
{
  FlowKey key {};
  key.local.bytes = { 192, 0, 2, 10 };
  key.remote.bytes = { 198, 51, static_cast<std::uint8_t>(n >> 24), static_cast<std::uint8_t>(n >> 16) };
  key.local_port = static_cast<std::uint16_t>(n);
  key.remote_port = 443;
  return key;
}

TEST(Table, InsertedIsFoundByKeyAndById)
{
  Table table { {} };
  EXPECT_EQ(table.find(key(1)), nullptr);
  Flow* flow = table.insert(key(1), at(3s));
  ASSERT_NE(flow, nullptr);
  EXPECT_EQ(table.find(key(1)), flow);
  EXPECT_EQ(table.by_id(flow->view.id), flow);
  EXPECT_EQ(flow->view.key, key(1));
  EXPECT_EQ(flow->view.first_seen, at(3s));
  EXPECT_EQ(flow->wake[0], Tick::max());
  EXPECT_EQ(flow->scheduled[max_modules - 1], Tick::max());
  EXPECT_EQ(table.size(), 1u);
}

TEST(Table, EveryPartOfTheKeyCounts)
{
  Table table { {} };
  const FlowKey base = key(1);
  std::vector<FlowKey> others(5, base);
  others[0].local.bytes[15] = 1;
  others[1].remote.bytes[0] = 1;
  ++others[2].local_port;
  ++others[3].remote_port;
  others[4].local.v6 = others[4].remote.v6 = true;
  ASSERT_NE(table.insert(base, at(0s)), nullptr);
  for (const FlowKey& other : others)
    EXPECT_EQ(table.find(other), nullptr);
}

TEST(Table, ErasedIsGoneAndItsIdIsNeverUsedAgain)
{
  Table table { { .capacity = 4 } };
  Flow* first = table.insert(key(1), at(0s));
  const std::uint64_t id = first->view.id;
  table.erase(*first);
  EXPECT_EQ(table.find(key(1)), nullptr);
  EXPECT_EQ(table.by_id(id), nullptr);
  EXPECT_EQ(table.size(), 0u);

  Flow* second = table.insert(key(2), at(0s));
  EXPECT_EQ(second, first) << "the room is used again";
  EXPECT_NE(second->view.id, id);
  EXPECT_EQ(table.by_id(id), nullptr) << "an alarm for the old flow must not reach the new one";
  EXPECT_EQ(table.by_id(second->view.id), second);
}

TEST(Table, AnIdThatNeverExistedIsNotFound)
{
  Table table { {} };
  EXPECT_EQ(table.by_id(0), nullptr);
  EXPECT_EQ(table.by_id(1), nullptr);
  EXPECT_EQ(table.by_id(std::uint64_t { 1 } << 40), nullptr);
  EXPECT_EQ(table.by_id(~std::uint64_t { 0 }), nullptr);
}

TEST(Table, FullTableRefusesAndCounts)
{
  Table table { { .capacity = 3 } };
  for (std::uint32_t i = 0; i < 3; ++i)
    ASSERT_NE(table.insert(key(i), at(0s)), nullptr);
  EXPECT_EQ(table.refused(), 0u);
  EXPECT_EQ(table.insert(key(3), at(0s)), nullptr);
  EXPECT_EQ(table.insert(key(4), at(0s)), nullptr);
  EXPECT_EQ(table.refused(), 2u);
  EXPECT_EQ(table.size(), 3u);
  table.erase(*table.find(key(1)));
  EXPECT_NE(table.insert(key(3), at(0s)), nullptr);
}

TEST(Table, FlowsOfOneBucketAreKeptApart)
{
  Table table { { .capacity = 2000 } };
  for (std::uint32_t i = 0; i < 2000; ++i)
    ASSERT_NE(table.insert(key(i), at(0s)), nullptr);
  for (std::uint32_t i = 0; i < 2000; i += 2)
    table.erase(*table.find(key(i)));
  for (std::uint32_t i = 0; i < 2000; ++i)
    ASSERT_EQ(table.find(key(i)) != nullptr, i % 2 == 1) << i;
}

TEST(Table, OldestIdleFlowExpiresFirst)
{
  Table table { { .idle = 100s } };
  Flow* a = table.insert(key(1), at(0s));
  Flow* b = table.insert(key(2), at(1s));
  EXPECT_EQ(table.expired(at(99s)), nullptr);
  EXPECT_EQ(table.next_expiry(), at(100s));
  EXPECT_EQ(table.expired(at(100s)), a);
  table.touch(*a, at(50s));
  EXPECT_EQ(table.expired(at(100s)), nullptr);
  EXPECT_EQ(table.expired(at(101s)), b);
  table.erase(*b);
  EXPECT_EQ(table.expired(at(149s)), nullptr);
  EXPECT_EQ(table.expired(at(150s)), a);
}

TEST(Table, ClosedFlowLingersOnlyShortly)
{
  Table table { { .idle = 100s, .linger = 5s } };
  Flow* flow = table.insert(key(1), at(0s));
  table.close(*flow);
  EXPECT_TRUE(flow->closed);
  EXPECT_EQ(table.expired(at(4s)), nullptr);
  EXPECT_EQ(table.expired(at(5s)), flow);
  table.touch(*flow, at(5s));
  EXPECT_EQ(table.expired(at(9s)), nullptr) << "a half-closed flow that still carries data lives on";
  EXPECT_EQ(table.expired(at(10s)), flow);
}

TEST(Table, ClosedFlowsGoHoweverManyOlderOnesLiveOn)
{
  // A browser keeps dozens of idle connections; they must not keep the table full of closed ones.
  Table table { { .capacity = 100, .idle = 120s, .linger = 5s } };
  for (std::uint32_t i = 0; i < 50; ++i)
    table.insert(key(i), at(0s));
  for (std::uint32_t i = 50; i < 100; ++i)
    table.close(*table.insert(key(i), at(1s)));
  int gone = 0;
  while (Flow* flow = table.expired(at(10s)))
  {
    EXPECT_TRUE(flow->closed);
    table.erase(*flow);
    ++gone;
  }
  EXPECT_EQ(gone, 50);
  EXPECT_NE(table.insert(key(200), at(10s)), nullptr);
}

TEST(Table, EachStageHasALifeOfItsOwn)
{
  using std::chrono::milliseconds;
  Table table { { .capacity = 64, .half_open = milliseconds { 5000 }, .most_answered = 3 } };
  Flow* living = table.insert(key(0), at(milliseconds { 0 }));
  Flow* opening = table.insert(key(1), at(milliseconds { 1 }), Stage::opening);
  Flow* settled = table.insert(key(2), at(milliseconds { 2 }), Stage::opening);
  for (std::uint16_t i = 3; i < 6; ++i)
    table.insert(key(i), at(milliseconds { i }), Stage::answered);
  ASSERT_NE(table.crowded_out(), nullptr);
  EXPECT_EQ(table.crowded_out()->view.key, key(3)) << "the oldest";
  table.erase(*table.crowded_out());
  EXPECT_EQ(table.crowded_out(), nullptr);
  table.touch(*settled, at(milliseconds { 10 }));
  table.settle(*settled);
  EXPECT_EQ(Table::stage(*settled), Stage::living);
  EXPECT_EQ(table.expired(at(milliseconds { 5000 })), nullptr);
  EXPECT_EQ(table.expired(at(milliseconds { 5001 })), opening);
  table.erase(*opening);
  EXPECT_EQ(table.expired(at(milliseconds { 5003 })), nullptr);
  for (std::uint16_t i = 4; i < 6; ++i)
  {
    Flow* old = table.expired(at(milliseconds { 5006 }));
    ASSERT_NE(old, nullptr);
    EXPECT_EQ(old->view.key, key(i));
    table.erase(*old);
  }
  EXPECT_EQ(table.expired(at(milliseconds { 60'000 })), nullptr);
  EXPECT_EQ(table.expired(at(milliseconds { 120'000 })), living);
  table.close(*settled);
  table.settle(*settled);
  EXPECT_EQ(Table::stage(*settled), Stage::closed) << "what is over stays so";
}

TEST(Table, EachVisitsAllOnceAndMayErase)
{
  Table table { {} };
  for (std::uint32_t i = 0; i < 10; ++i)
    table.insert(key(i), at(0s));
  table.close(*table.find(key(3)));
  table.touch(*table.find(key(0)), at(1s));
  std::vector<std::uint16_t> ports {};
  table.each(
      [&](Flow& flow)
      {
        ports.push_back(flow.view.key.local_port);
        if (ports.back() % 2 == 0) table.erase(flow);
      });
  EXPECT_EQ(ports.size(), 10u);
  EXPECT_EQ(std::set<std::uint16_t>(ports.begin(), ports.end()).size(), 10u);
  EXPECT_EQ(table.size(), 5u);
}

// Remote hosts choose ports and addresses: which flows share a bucket must depend on the seed.
TEST(Table, SeedChangesTheOrderOfBuckets)
{
  Table one { { .capacity = 16, .seed = 1 } };
  Table other { { .capacity = 16, .seed = 2 } };
  int same = 0;
  for (std::uint32_t n = 0; n < 1000; ++n)
    same += one.bucket_of(key(n)) == other.bucket_of(key(n)) ? 1 : 0;
  EXPECT_GT(same, 20) << "of 16 buckets, about 1000 / 16 agree by chance";
  EXPECT_LT(same, 150);
}

TEST(Table, BucketsFillEvenlyWhateverTheSeed)
{
  for (const std::uint64_t seed : { 0ull, 1ull, 0xdead'beef'0000'0001ull })
  {
    Table table { { .capacity = 256, .seed = seed } };
    std::map<std::size_t, int> load {};
    for (std::uint32_t n = 0; n < 25'600; ++n)
      ++load[table.bucket_of(key(n))];
    EXPECT_EQ(load.size(), 256u);
    for (const auto& [bucket, count] : load)
      EXPECT_LT(count, 200) << "bucket " << bucket << " of seed " << seed << ", mean is 100";
  }
}

TEST(Table, TenThousandFlowsStayUnderOneKibibyteEach)
{
  constexpr std::size_t flows = 10'000;
  Table table { { .capacity = flows, .state_bytes = 3 * largest_flow_state } };
  for (std::uint32_t i = 0; i < flows; ++i)
    ASSERT_NE(table.insert(key(i), at(0s)), nullptr);
  EXPECT_GE(table.memory(), flows * sizeof(Flow));
  EXPECT_LE(table.memory() / flows, 1024u);
}

TEST(Table, StateIsAlignedApartAndGivenBack)
{
  constexpr std::size_t size = 200;
  Table table { { .state_bytes = size } };
  std::vector<std::byte*> all {};
  for (std::uint32_t i = 0; i < 200; ++i)
  {
    Flow* flow = table.insert(key(i), at(0s));
    ASSERT_EQ(table.state(*flow), nullptr);
    std::byte* state = table.make_state(*flow);
    ASSERT_EQ(table.make_state(*flow), state) << "the same again";
    ASSERT_EQ(table.state(*flow), state);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(state) % alignof(std::max_align_t), 0u);
    std::fill_n(state, size, static_cast<std::byte>(i));
    all.push_back(state);
  }
  EXPECT_EQ(table.states(), 200u);
  for (std::uint32_t i = 0; i < 200; ++i)
    ASSERT_TRUE(std::all_of(all[i], all[i] + size, [&](std::byte b) { return b == static_cast<std::byte>(i); }))
        << "one flow's state runs into another's";
  const std::size_t memory = table.memory();
  table.erase(*table.find(key(7)));
  EXPECT_EQ(table.states(), 199u);
  Flow* next = table.insert(key(7), at(0s));
  EXPECT_EQ(table.state(*next), nullptr) << "a new flow has none of the old one's";
  EXPECT_EQ(table.make_state(*next), all[7]);
  EXPECT_EQ(table.memory(), memory) << "what was given back is used again";
}

// Random inserts, touches, closes and erases against a plain map.
TEST(Table, AgreesWithAMapUnderRandomUse)
{
  std::mt19937 random { 7 };
  Table table { { .capacity = 64, .seed = 3, .idle = 60s, .linger = 5s } };
  struct Known
  {
    std::uint64_t id = 0;
    Tick seen {};
    bool closed = false;
  };
  std::map<std::uint16_t, Known> known {};
  Tick now {};
  for (int step = 0; step < 50'000; ++step)
  {
    now += std::chrono::milliseconds { random() % 200 };
    const std::uint32_t n = random() % 100;
    const auto port = static_cast<std::uint16_t>(n);
    Flow* flow = table.find(key(n));
    ASSERT_EQ(flow != nullptr, known.contains(port)) << "step " << step;
    if (flow != nullptr)
    {
      ASSERT_EQ(flow->view.id, known[port].id);
    }
    switch (random() % 5)
    {
    case 0:
    case 1:
      if (flow != nullptr)
      {
        table.touch(*flow, now);
        known[port].seen = now;
      }
      else if (Flow* fresh = table.insert(key(n), now); fresh != nullptr)
        known[port] = { fresh->view.id, now, false };
      else
        ASSERT_EQ(known.size(), 64u);
      break;
    case 2:
      if (flow != nullptr && random() % 4 == 0)
      {
        table.touch(*flow, now); // as the chain does with the segment that closes it
        table.close(*flow);
        known[port].seen = now;
        known[port].closed = true;
      }
      break;
    case 3:
      if (flow != nullptr && random() % 8 == 0)
      {
        table.erase(*flow);
        known.erase(port);
      }
      break;
    default:
      while (Flow* old = table.expired(now))
      {
        const Known& one = known[old->view.key.local_port];
        ASSERT_GE(now - one.seen, one.closed ? 5s : 60s);
        known.erase(old->view.key.local_port);
        table.erase(*old);
      }
      for (const auto& [p, one] : known)
        ASSERT_LT(now - one.seen, one.closed ? 5s : 60s) << "port " << p << " overstayed";
    }
    ASSERT_EQ(table.size(), known.size());
  }
}

} // namespace
} // namespace tandem::flow
