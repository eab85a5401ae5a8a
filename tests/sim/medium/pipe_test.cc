// Point-to-point links: rates, traces, delay, queue, marking.

#include "tests/sim/medium/bench.h"
#include "tools/lab/medium/pipe.h"
#include "tools/lab/medium/trace.h"

#include <gtest/gtest.h>

namespace tandem::medium::test
{

namespace
{

std::shared_ptr<const Opportunities> trace(std::vector<std::uint32_t> ms)
{
  return std::make_shared<const Opportunities>(Opportunities { std::move(ms) });
}

TEST(Pipe, ConstantRateSpacesPacketsExactly)
{
  Outbox box;
  Pipe pipe({ .rate = 12_mbps, .delay = 20ms }, 1, 0, 5, 6, box);
  for (Handle i = 0; i < 10; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500 });
  pipe.run_until(at(1s));
  ASSERT_EQ(box.deliveries.size(), 10u);
  for (int i = 0; i < 10; ++i)
  {
    EXPECT_EQ(box.deliveries[static_cast<std::size_t>(i)].at, at((i + 1) * 1ms + 20ms));
    EXPECT_EQ(box.deliveries[static_cast<std::size_t>(i)].to, 6);
  }
}

TEST(Pipe, ARateChangeTakesEffectWithTheNextPacket)
{
  Outbox box;
  PipeConfig config { .rate = 12_mbps };
  Pipe pipe(config, 1, 0, 0, 1, box);
  for (Handle i = 0; i < 4; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500 });
  pipe.run_until(at(1500us));
  config.rate = 1200_kbps;
  pipe.configure(at(1500us), config);
  pipe.run_until(at(1s));
  ASSERT_EQ(box.deliveries.size(), 4u);
  EXPECT_EQ(box.deliveries[1].at, at(2ms));
  EXPECT_EQ(box.deliveries[2].at, at(12ms));
  EXPECT_EQ(box.deliveries[3].at, at(22ms));
}

TEST(Pipe, ATraceTakesOverFromARateWithTheNextPacket)
{
  Outbox box;
  PipeConfig config { .rate = 12_mbps };
  Pipe pipe(config, 1, 0, 0, 1, box);
  for (Handle i = 0; i < 6; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500 });
  pipe.run_until(at(1500us));
  config.trace = trace({ 10 });
  pipe.configure(at(1500us), config);
  pipe.run_until(at(1s));
  ASSERT_EQ(box.deliveries.size(), 6u);
  EXPECT_EQ(box.deliveries[1].at, at(2ms)) << "it was being sent";
  for (int i = 2; i < 6; ++i)
    EXPECT_EQ(box.deliveries[static_cast<std::size_t>(i)].at, at((i - 1) * 10ms));
}

TEST(Pipe, JitterStaysInItsRangeAndNeverReorders)
{
  Outbox box;
  Pipe pipe({ .delay = 10ms, .jitter = 5ms }, 1, 0, 0, 1, box);
  for (Handle i = 0; i < 5000; ++i)
  {
    pipe.run_until(at(static_cast<int>(i) * 1ms));
    pipe.submit(at(static_cast<int>(i) * 1ms), { .handle = i, .bytes = 100 });
  }
  pipe.run_until(at(10s));
  ASSERT_EQ(box.deliveries.size(), 5000u);
  Duration least = 1s, most {};
  for (std::size_t i = 0; i < 5000; ++i)
  {
    EXPECT_EQ(box.deliveries[i].handle, i);
    if (i > 0)
    {
      EXPECT_GE(box.deliveries[i].at, box.deliveries[i - 1].at);
    }
    const Duration delay = box.deliveries[i].at - at(static_cast<int>(i) * 1ms);
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_GE(least, 10ms);
  EXPECT_LT(most, 15ms);
  EXPECT_GT(most - least, 4ms);
}

TEST(Pipe, QueueLimitsInPacketsAndBytes)
{
  Outbox box;
  Pipe by_packets({ .rate = 1_mbps, .queue_packets = 3 }, 1, 0, 0, 1, box);
  for (Handle i = 0; i < 6; ++i)
    by_packets.submit(Tick {}, { .handle = i, .bytes = 1000 });
  EXPECT_EQ(box.drops.size(), 2u); // one is being sent, three wait
  box.clear();
  Pipe by_bytes({ .rate = 1_mbps, .queue_bytes = 2500 }, 1, 0, 0, 1, box);
  for (Handle i = 0; i < 6; ++i)
    by_bytes.submit(Tick {}, { .handle = i, .bytes = 1000 });
  EXPECT_EQ(box.drops.size(), 3u);
}

TEST(Pipe, TraceGivesEachOpportunityFifteenHundredBytesAndLoops)
{
  Outbox box;
  // Three opportunities in 10 ms, two of them in the same millisecond.
  Pipe pipe({ .trace = trace({ 2, 2, 10 }), .delay = 1ms }, 1, 0, 0, 1, box);
  for (Handle i = 0; i < 7; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500 });
  pipe.run_until(at(1s));
  const Duration expected[] = { 3ms, 3ms, 11ms, 13ms, 13ms, 21ms, 23ms };
  ASSERT_EQ(box.deliveries.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_EQ(box.deliveries[i].at, at(expected[i])) << i;
}

TEST(Pipe, TraceCarriesSmallPacketsTogetherAndBigOnesInParts)
{
  Outbox box;
  Pipe pipe({ .trace = trace({ 1, 2, 3, 4 }) }, 1, 0, 0, 1, box);
  const std::uint32_t sizes[] = { 500, 500, 1000, 100 };
  for (Handle i = 0; i < 4; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = sizes[i] });
  pipe.run_until(at(1s));
  const Duration expected[] = { 1ms, 1ms, 2ms, 2ms };
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(box.deliveries[i].at, at(expected[i])) << i;
}

TEST(Pipe, TraceRateIsReachedAndIdleOpportunitiesAreLost)
{
  Outbox box;
  std::vector<std::uint32_t> ms;
  for (std::uint32_t i = 1; i <= 100; ++i)
    if (i % 3 != 0) ms.push_back(i);
  const auto shared = trace(ms);
  Pipe pipe({ .trace = shared }, 1, 0, 0, 1, box);
  // Idle for a second, then backlogged: what passed while nothing waited does not come back.
  pipe.run_until(at(1s));
  for (Handle i = 0; i < 900; ++i)
    pipe.submit(at(1s), { .handle = i, .bytes = 1500 });
  pipe.run_until(at(2s));
  EXPECT_NEAR(static_cast<double>(box.deliveries.size()), shared->mean_rate().bits_per_second / 12000, 1);
}

TEST(Pipe, MarksAboveTheThresholdAndDropsWhatCannotBeMarked)
{
  Outbox box;
  PipeConfig config { .rate = 12_mbps, .aqm = { .kind = Aqm::Kind::mark, .threshold = 5ms, .full = 5ms } };
  Pipe pipe(config, 1, 0, 0, 1, box);
  // 20 packets at once wait 0, 1, 2, ... ms.
  for (Handle i = 0; i < 20; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500, .ect = true });
  pipe.run_until(at(1s));
  ASSERT_EQ(box.deliveries.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(box.deliveries[i].mark, i >= 5) << i;
  box.clear();
  for (Handle i = 0; i < 20; ++i)
    pipe.submit(at(1s), { .handle = i, .bytes = 1500 });
  pipe.run_until(at(2s));
  EXPECT_EQ(box.deliveries.size(), 5u);
  EXPECT_EQ(box.drops.size(), 15u);
  EXPECT_EQ(box.drops[0].why, DropReason::aqm);
}

TEST(Pipe, MarkingRampIsLinear)
{
  Outbox box;
  Pipe pipe(
      { .rate = 12_mbps, .queue_packets = 100000, .aqm = { .kind = Aqm::Kind::mark, .threshold = 1s, .full = 3s } }, 1,
      0, 0, 1, box);
  for (Handle i = 0; i < 3000; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500, .ect = true });
  pipe.run_until(at(10s));
  int first = 0, second = 0;
  for (std::size_t i = 0; i < 3000; ++i)
    (i < 1000 ? first : second) += box.deliveries[i].mark;
  EXPECT_EQ(first, 0);
  EXPECT_NEAR(second / 2000.0, 0.5, 0.04);
}

TEST(Pipe, CoDelDropsEverMoreOftenWhileAQueueStandsAndNothingOfABurst)
{
  Outbox box;
  Pipe pipe({ .rate = 12_mbps, .aqm = { .kind = Aqm::Kind::codel, .threshold = 5ms } }, 1, 0, 0, 1, box);
  // A burst of 60 ms is gone before an interval is over.
  for (Handle i = 0; i < 60; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500, .ect = true });
  pipe.run_until(at(1s));
  EXPECT_EQ(box.deliveries.size(), 60u);
  EXPECT_TRUE(box.drops.empty());
  // As much as the link carries, behind a queue of 20 ms: the first drop after 100 ms above the target, the next ones
  // 100 / sqrt(count) later each (RFC 8289 5.3), and nothing is marked.
  const auto offer = [&](int ms)
  {
    pipe.run_until(at(1s + ms * 1ms));
    pipe.submit(at(1s + ms * 1ms), { .handle = 100, .bytes = 1500, .ect = true });
  };
  for (int i = 0; i < 20; ++i)
    offer(0);
  for (int ms = 1; ms < 400; ++ms)
    offer(ms);
  pipe.run_until(at(3s));
  ASSERT_GE(box.drops.size(), 4u);
  const double expected[] = { 0.106, 0.206, 0.277, 0.334 };
  for (std::size_t i = 0; i < 4; ++i)
  {
    EXPECT_EQ(box.drops[i].why, DropReason::aqm);
    EXPECT_NEAR(seconds(box.drops[i].at - at(1s)), expected[i], 0.004) << i;
  }
  EXPECT_EQ(pipe.stats().marked, 0u);
}

TEST(Pipe, APolicerLetsItsBurstThroughAndThenItsRateWithoutAQueue)
{
  Outbox box;
  Pipe pipe({ .delay = 10ms, .policer = { .rate = 12_mbps, .burst = 15000 } }, 1, 0, 0, 1, box);
  for (Handle i = 0; i < 12; ++i)
    pipe.submit(Tick {}, { .handle = i, .bytes = 1500 });
  pipe.run_until(at(20ms));
  EXPECT_EQ(box.deliveries.size(), 10u);
  EXPECT_EQ(box.drops.size(), 2u);
  EXPECT_EQ(box.drops[0].why, DropReason::policed);
  for (const Delivery& delivery : box.deliveries)
    EXPECT_EQ(delivery.at, at(10ms));
  box.clear();
  // Twice its rate: the bucket holds what 20 ms brought, then every other packet passes.
  for (int i = 0; i < 2000; ++i)
    pipe.submit(at(20ms + i * 500us), { .handle = 0, .bytes = 1500 });
  EXPECT_NEAR(static_cast<double>(box.drops.size()), 990, 2);
}

TEST(Pipe, SomePacketsAreOvertakenAndNoneIsLost)
{
  Outbox box;
  Pipe pipe({ .rate = 120_mbps, .delay = 10ms, .reordering = { .share = 0.1, .later = 5ms } }, 1, 0, 0, 1, box);
  for (int i = 0; i < 5000; ++i)
  {
    pipe.run_until(at(i * 1ms));
    pipe.submit(at(i * 1ms), { .handle = static_cast<Handle>(i), .bytes = 1500 });
  }
  pipe.run_until(at(10s));
  ASSERT_EQ(box.deliveries.size(), 5000u);
  int late = 0;
  Tick before {};
  for (const Delivery& delivery : box.deliveries)
  {
    EXPECT_GE(delivery.at, before);
    before = delivery.at;
    const Duration took = delivery.at - at(static_cast<int>(delivery.handle) * 1ms);
    EXPECT_TRUE(took == 10100us || took == 15100us) << took.count();
    late += took > 11ms;
  }
  EXPECT_NEAR(late, 500, 70);
}

TEST(Pipe, DownDropsOrHolds)
{
  Outbox box;
  Pipe pipe({ .rate = 12_mbps }, 1, 0, 0, 1, box);
  pipe.set_down(at(0s), true, false);
  pipe.submit(at(0s), { .handle = 0, .bytes = 1500 });
  EXPECT_EQ(box.drops.size(), 1u);
  pipe.set_down(at(0s), true, true);
  pipe.submit(at(0s), { .handle = 1, .bytes = 1500 });
  pipe.run_until(at(1s));
  EXPECT_TRUE(box.deliveries.empty());
  pipe.set_down(at(1s), false, false);
  pipe.run_until(at(2s));
  ASSERT_EQ(box.deliveries.size(), 1u);
  EXPECT_EQ(box.deliveries[0].at, at(1001ms));
}

TEST(Trace, ReadsMahimahiAndNamesTheLineOfAFault)
{
  const auto good = parse_trace("# made up\n1\n1\n5\r\n\n7\n");
  ASSERT_TRUE(std::holds_alternative<Opportunities>(good));
  EXPECT_EQ(std::get<Opportunities>(good).milliseconds, (std::vector<std::uint32_t> { 1, 1, 5, 7 }));
  const auto line_of = [](std::string_view text) { return std::get<TraceFault>(parse_trace(text)).line; };
  EXPECT_EQ(line_of("1\n2x\n"), 2);
  EXPECT_EQ(line_of("1\n5\n4\n"), 3);
  EXPECT_EQ(line_of("-1\n"), 1);
  EXPECT_EQ(line_of("0\n"), 1);
  EXPECT_EQ(line_of(""), 0);
}

} // namespace

} // namespace tandem::medium::test
