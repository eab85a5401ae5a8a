#include "src/feeder/radio/own_load.h"

#include <gtest/gtest.h>

namespace tandem::feeder
{
namespace
{

using namespace std::chrono_literals;

constexpr Mac us { 2, 0, 0, 0, 0, 1 };

class OwnLoadTest : public testing::Test
{
protected:
  // Ten times a second, so many bytes a second.
  void count(std::uint64_t rate, Duration for_so_long)
  {
    for (const Tick end = now_ + for_so_long; now_ < end; now_ += 100ms)
    {
      bytes_ += rate / 10;
      load_.take(StationStats { .rx_bytes = bytes_ }, now_);
    }
  }
  // 100 frames a second.
  void hear(std::uint32_t length, Duration for_so_long, const Mac& receiver = us)
  {
    for (const Tick end = now_ + for_so_long; now_ < end; now_ += 10ms)
      load_.take(Frame { .kind = Frame::Kind::data, .receiver = receiver, .from_ap = true, .bytes = length }, now_);
  }

  Tick now_ { 1h };
  std::uint64_t bytes_ = 7'000'000'000;
  OwnLoad load_ { us };
};

TEST_F(OwnLoadTest, IsWhatPacketsTakeInASecond)
{
  EXPECT_FALSE(load_.share(now_, 1ms));
  count(150'000, 500ms);
  EXPECT_FALSE(load_.share(now_, 1ms)) << "nothing but the beginning is known";
  count(150'000, 1s);
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.1, 0.001) << "a hundred packets";
  EXPECT_NEAR(*load_.share(now_, 5ms), 0.5, 0.001);
  EXPECT_EQ(*load_.share(now_, 1s), 1) << "the packet time has changed meanwhile";
  count(0, 3s);
  EXPECT_EQ(*load_.share(now_, 1ms), 0);
}

TEST_F(OwnLoadTest, OfAnotherAccessPointItBeginsAnew)
{
  count(150'000, 2500ms);
  bytes_ = 1000;
  count(150'000, 500ms);
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.1, 0.001) << "as before";
  count(300'000, 2s);
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.2, 0.001);
}

TEST_F(OwnLoadTest, WhatIsOldIsNotKnown)
{
  count(150'000, 2500ms);
  now_ += 4s;
  EXPECT_FALSE(load_.share(now_, 1ms));
  count(150'000, 500ms);
  EXPECT_FALSE(load_.share(now_, 1ms)) << "a mean over a pause says nothing of now";
  count(150'000, 1s);
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.1, 0.001);
}

TEST_F(OwnLoadTest, OfFramesThoseForUsCount)
{
  hear(1500, 2500ms);
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.1, 0.002);
  hear(1500, 2s, { 2, 0, 0, 0, 0, 9 });
  EXPECT_EQ(*load_.share(now_, 1ms), 0);
}

TEST_F(OwnLoadTest, WhereTheDriverCountsFramesDoNot)
{
  count(150'000, 1s);
  for (int i = 0; i < 30; ++i)
  {
    count(150'000, 100ms);
    load_.take(Frame { .kind = Frame::Kind::data, .receiver = us, .from_ap = true, .bytes = 60'000 }, now_);
  }
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.1, 0.001);
}

TEST_F(OwnLoadTest, WhatTheDriverCountedBeforeIsNoLoad)
{
  hear(1500, 2500ms);
  count(150'000, 500ms);
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.1, 0.002) << "as was heard";
  count(150'000, 2s);
  EXPECT_NEAR(*load_.share(now_, 1ms), 0.1, 0.001);
}

} // namespace
} // namespace tandem::feeder
