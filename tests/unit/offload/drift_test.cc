// The server's clock and this host's part, by up to 200 ppm: a millisecond in five seconds. Neither that nor a path
// that became longer during a pause may send an ACK by cellular that would not leave there otherwise.
#include "tests/unit/offload/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace tandem::offload
{
namespace
{

using namespace test;

constexpr std::string_view copied = "offload: by cellular as well";
constexpr std::string_view declined = "offload: added delay costs more than it saves";
constexpr std::string_view validated = "offload: path validated";

struct Drifting : Session
{
  static chain::Chain::Options kept()
  {
    chain::Chain::Options options = unlimited();
    options.table.idle = std::chrono::hours { 24 };
    return options;
  }
  explicit Drifting(double a_ppm) : Session { {}, kept() }, ppm { a_ppm }
  {
    module.set("probe_copies", 1);
    module.set("window_mss", 4);
    module.set("goodput_loss_limit", 1);
  }
  // As steps(); what the server's clock has gained by now is in each segment.
  void run(Duration span)
  {
    for (const Tick end = fixture.now() + span; fixture.now() < end;)
    {
      gain();
      step();
    }
  }
  // The server is silent.
  void pause(Duration span)
  {
    wait(span);
    gain();
  }
  void gain()
  {
    const double ms = std::floor(milliseconds(fixture.now() - Tick {}) * ppm * 1e-6);
    peers.remote_clock = clock + static_cast<std::uint32_t>(static_cast<std::int64_t>(ms));
  }
  // Either way takes so much longer, there and back.
  void farther(Duration each)
  {
    wifi().delay = wifi().delay + each;
    cell().delay = cell().delay + each;
    downlink(peers.downlink + each);
  }
  std::uint64_t copies() const { return fixture.count(copied); }
  std::size_t by_cell() const
  {
    return static_cast<std::size_t>(
        std::count_if(left.begin(), left.end(), [](const Left& one) { return one.by == Link::cell; }));
  }

  double ppm;
  TsClock clock = peers.remote_clock;
};

constexpr std::array<double, 7> drifts { 0, 1, -1, 50, -50, 200, -200 };

TEST(OffloadDrift, WiFiDoesNotLookLate)
{
  for (const double rtt : { 20., 300. })
    for (const double slower : { 5., 20. })
      for (const double ppm : drifts)
      {
        Drifting s { ppm };
        s.every = ms(4);
        s.farther(ms((rtt - 20) / 2));
        s.pause(ms(1000)); // nothing is timed that was under way
        s.cell().delay = s.wifi().delay + ms(slower);
        s.run(ms(120'000));
        EXPECT_GE(s.fixture.count(declined), 3u) << rtt << " ms, " << slower << " ms slower, " << ppm << " ppm";
        EXPECT_EQ(s.copies(), 0u) << rtt << " ms, " << slower << " ms slower, " << ppm << " ppm";
      }
}

TEST(OffloadDrift, WiFiDoesNotLookLateAfterMinutesByCellular)
{
  for (const double ppm : drifts)
  {
    Drifting s { ppm };
    s.every = ms(4);
    s.cell().delay = ms(30);
    s.run(ms(1000));
    s.downlink(ms(60)); // a queue that excuses 20 ms
    s.run(ms(5000));
    ASSERT_EQ(s.phase(), Phase::by_cell) << ppm;
    s.run(ms(200'000));
    ASSERT_EQ(s.phase(), Phase::by_cell) << ppm;
    s.downlink(ms(10));
    s.run(ms(20'000));
    EXPECT_EQ(s.phase(), Phase::by_wifi) << ppm;
    EXPECT_EQ(s.copies(), 0u) << ppm << " ppm";
  }
}

// What an ACK waits for the air is seen as before, also by a clock that runs away.
TEST(OffloadDrift, WhatIsLateIsSeen)
{
  for (const double ppm : drifts)
  {
    Drifting s { ppm };
    s.every = ms(4);
    s.cell().delay = ms(30);
    s.run(ms(120'000));
    ASSERT_EQ(s.copies(), 0u) << ppm;
    s.wifi().delay = ms(50);
    s.run(ms(300));
    s.wifi().delay = ms(10);
    s.run(ms(3000));
    EXPECT_GT(s.copies(), 50u) << ppm;
    EXPECT_LT(s.copies(), 1000u) << ppm;
  }
}

// Of a cellular path at which ACKs queue for a while as many leave again as it takes.
TEST(OffloadDrift, FewerAcksByCellularAreForAWhile)
{
  for (const double ppm : drifts)
  {
    Drifting s { ppm };
    ASSERT_TRUE(s.until(validated));
    s.run(ms(60'000));
    s.cell().spacing = ms(4);
    s.run(ms(3000));
    ASSERT_GT(s.state().stretch, 1) << ppm;
    ASSERT_EQ(s.phase(), Phase::by_cell) << ppm;
    s.cell().spacing = {};
    s.run(ms(60'000));
    EXPECT_EQ(s.phase(), Phase::by_cell) << ppm;
    EXPECT_EQ(s.state().stretch, 1) << ppm << " ppm";
    EXPECT_FALSE(s.state().thin_uplink) << ppm << " ppm";
  }
}

// After an hour the clocks have parted by 720 ms.
TEST(OffloadDrift, APauseAddsNothingToAPath)
{
  for (const double slower : { -2., 60. })
    for (const double ppm : drifts)
    {
      Drifting s { ppm };
      s.module.set("window_mss", 10'000); // not now
      s.cell().delay = s.wifi().delay + ms(slower);
      s.run(ms(3000));
      ASSERT_EQ(s.phase(), Phase::by_wifi);
      s.pause(std::chrono::hours { 1 });
      s.module.set("window_mss", 4);
      s.run(ms(3000));
      EXPECT_EQ(s.phase() == Phase::by_cell, slower < 0) << slower << " ms slower, " << ppm << " ppm";
      EXPECT_NEAR(s.state().added_delay, slower * 1e-3, 0.003) << slower << " ms slower, " << ppm << " ppm";
      EXPECT_EQ(s.copies(), 0u) << slower << " ms slower, " << ppm << " ppm";
    }
}

// Nor where it comes between the move and the first round by cellular.
TEST(OffloadDrift, APauseAfterTheMoveAddsNothingToAPath)
{
  for (const double ppm : drifts)
  {
    Drifting s { ppm };
    auto& known = s.fixture.flow(s.peers).view.cell_path_known;
    s.cell().delay = ms(70);
    known = Duration {}; // it was 60 ms faster
    ASSERT_TRUE(s.until("offload: path known from another flow"));
    s.run(ms(30));
    s.pause(std::chrono::hours { 1 });
    known.reset();
    s.run(ms(5000));
    EXPECT_EQ(s.phase(), Phase::by_wifi) << ppm << " ppm";
    EXPECT_NEAR(s.state().slow_delay, 0.06, 0.003) << ppm << " ppm";
  }
}

// And ACKs that leave by cellular are not thinned out because the last one before the pause was an hour ago.
TEST(OffloadDrift, APauseIsNoQueueOfTheUplink)
{
  for (const double ppm : drifts)
  {
    Drifting s { ppm };
    ASSERT_TRUE(s.until(validated));
    s.run(ms(5000));
    for (int hour = 0; hour < 3; ++hour)
    {
      s.pause(std::chrono::hours { 1 });
      s.run(ms(3000));
      EXPECT_FALSE(s.state().thin_uplink) << ppm << " ppm";
      EXPECT_EQ(s.state().stretch, 1) << ppm << " ppm";
    }
  }
}

TEST(OffloadDrift, APathThatBecameLongerDuringAPauseIsNoQueue)
{
  Drifting s { 0 };
  s.cell().delay = ms(30);
  s.run(ms(5000));
  ASSERT_EQ(s.phase(), Phase::by_wifi);
  ASSERT_NEAR(s.state().shortest_by_wifi, 0.02, 0.002);
  s.pause(ms(20'000));
  s.farther(ms(40));
  s.run(ms(60'000));
  EXPECT_NEAR(s.state().shortest_by_wifi, 0.1, 0.002);
  EXPECT_EQ(s.fixture.count(validated), 0u) << "20 ms slower, and nothing stands in queues";
  s.pause(ms(20'000));
  s.farther(-ms(40));
  s.run(ms(1000));
  EXPECT_NEAR(s.state().shortest_by_wifi, 0.02, 0.002) << "a shorter one is seen at once";
}

} // namespace
} // namespace tandem::offload
