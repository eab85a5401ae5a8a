#include "modules/rate/bounded_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tandem::rate
{
namespace
{

using namespace tandem::literals;

// A download at a bottleneck with a queue: the local TCP acknowledges what comes, and the sender fills what it is
// offered.
struct Download
{
  Download()
  {
    flow.bypass = Bypass::none;
    flow.local_window_scale = 7;
    flow.mss = 1448;
    flow.rtt_min = flow.rtt_smoothed = flow.rtt_latest = 30ms;
    flow.delivery_rate = 1.25e6; // 10 Mb/s: 37,500 bytes in 30 ms
    flow.sent_any = true;
    flow.sent_ack = flow.rcv_nxt = Seq { 0xfffff000 }; // wraps soon
    flow.sent_window = 4000;
  }
  // The next ACK: so many bytes more, with the local TCP's own window. Returns the window that leaves.
  std::uint16_t ack(std::uint32_t more, std::uint16_t own = 4000, double headroom = 1.5)
  {
    now += 1ms;
    flow.rcv_nxt = flow.rcv_nxt + more;
    Segment segment {};
    segment.seq = flow.snd_nxt;
    segment.ack = flow.rcv_nxt;
    segment.flags = tcp_flag::ack;
    segment.window = own;
    window.measure(flow, now);
    const auto edited = window.bound(segment, flow, now, headroom);
    EXPECT_TRUE(!edited || *edited < own) << "only downwards";
    const std::uint16_t left = edited.value_or(own);
    flow.sent_ack = flow.rcv_nxt;
    flow.sent_window = left;
    return left;
  }
  Seq edge() const { return flow.sent_ack + flow.scaled(flow.sent_window); }

  BoundedWindow window;
  FlowView flow {};
  Tick now { 10s };
};

TEST(bounded_window, comes_down_only_as_the_download_eats_up_what_it_was_offered)
{
  Download d;
  EXPECT_EQ(d.ack(1448), 4000) << "the first one says where the edge is";
  const Seq offered = d.edge();
  std::uint16_t last = 4000;
  for (int i = 0; i < 500; ++i)
  {
    const std::uint16_t left = d.ack(1448);
    EXPECT_LE(left, last);
    EXPECT_FALSE(offered.after(d.edge()));
    last = left;
  }
  EXPECT_EQ(last, (37'500 * 3 / 2 + 127) / 128);
  EXPECT_NEAR(d.window.bytes(), 56'250, 1);
}

TEST(bounded_window, the_right_edge_never_moves_back)
{
  for (std::uint32_t seed = 0; seed < 50; ++seed)
  {
    std::mt19937 random { seed };
    Download d;
    Seq edge = d.edge();
    std::uint32_t reading = 4000u << 7; // behind rcv_nxt, as the local TCP has it: it takes nothing back either
    for (int i = 0; i < 2000; ++i)
    {
      const std::uint32_t more = random() % 4 == 0 ? 0 : random() % 5000;
      reading = reading - std::min(reading, more) + random() % 6000;
      reading = std::min(reading, 65535u << 7);
      d.flow.delivery_rate = 1e5 + random() % 5'000'000;
      d.flow.rtt_latest = d.flow.rtt_smoothed = 20ms + 1ms * (random() % 200);
      if (random() % 50 == 0) d.flow.snd_nxt = d.flow.snd_nxt + 100u; // a request of this host's
      if (random() % 100 == 0) d.window.open();
      const std::uint32_t own = (reading + 127) >> 7;
      d.ack(more, static_cast<std::uint16_t>(std::min(own, 65535u)), 1 + random() % 2 * 0.5);
      const bool local = reading < 5000; // the application does not read: the local TCP rounds its own window
      EXPECT_TRUE(local || !edge.after(d.edge() + 128)) << "seed " << seed << " step " << i;
      edge = later(edge, d.edge());
    }
  }
}

TEST(bounded_window, duplicates_repeat_it)
{
  Download d;
  for (int i = 0; i < 400; ++i)
    d.ack(1448);
  const std::uint16_t before = d.flow.sent_window;
  d.flow.delivery_rate = 9e6;
  EXPECT_EQ(d.ack(0), before);
  EXPECT_EQ(d.ack(0), before);
  EXPECT_GT(d.ack(1448), before);
}

// The application did not read, and does now: the ACK that says so has the number of the one before, and where all that
// was offered has come nothing else would ever say it.
TEST(bounded_window, a_window_that_was_closed_opens_again)
{
  for (const std::uint32_t rest : { 0u, 640u }) // bytes: less than a segment
  {
    Download d;
    for (int i = 0; i < 400; ++i)
      d.ack(1448);
    for (std::uint32_t unread = 40; unread-- > 0;)
      d.ack(1448, static_cast<std::uint16_t>((unread * 1448 + rest) >> 7));
    ASSERT_EQ(d.flow.sent_window, rest >> 7);
    EXPECT_EQ(d.ack(0), (37'500 * 3 / 2 + 127) / 128) << "bounded, but open";
    EXPECT_EQ(d.ack(0), (37'500 * 3 / 2 + 127) / 128) << "and repeated";
  }
}

TEST(bounded_window, a_request_of_this_host_says_its_own_window)
{
  Download d;
  for (int i = 0; i < 400; ++i)
    d.ack(1448);
  d.flow.snd_nxt = d.flow.snd_nxt + 500u; // it left with the local TCP's window, which nobody edited
  EXPECT_EQ(d.ack(1448), 4000);
}

TEST(bounded_window, a_longer_path_does_not_squeeze_the_flow)
{
  Download d;
  for (int i = 0; i < 400; ++i)
    d.ack(1448);
  d.flow.rtt_min = d.flow.rtt_latest = d.flow.rtt_smoothed = 90ms; // as long as it stays so without a queue of ours
  for (int i = 0; i < 1000; ++i)
    d.ack(1448);
  EXPECT_EQ(d.window.least_round_trip(), 90ms);
}

TEST(bounded_window, ten_segments_at_least_and_nothing_without_a_rate)
{
  Download d;
  d.flow.delivery_rate = 1000;
  for (int i = 0; i < 400; ++i)
    d.ack(1448);
  EXPECT_EQ(d.flow.sent_window, (14'480 + 127) / 128);
  Download unknown;
  unknown.flow.delivery_rate = 0;
  EXPECT_EQ(unknown.ack(1448), 4000);
  EXPECT_EQ(unknown.ack(1448), 4000);
  Download late;
  late.flow.bypass = Bypass::mid_flow;
  EXPECT_EQ(late.ack(1448), 4000);
  EXPECT_EQ(late.ack(1448), 4000);
}

// A server that answers late and sends fast: more than a window can say is under way.
TEST(bounded_window, what_no_window_can_say_bounds_none)
{
  Download d;
  d.flow.local_window_scale = 14;
  d.flow.delivery_rate = 1e8;
  d.flow.rtt_min = d.flow.rtt_smoothed = d.flow.rtt_latest = Duration { 42'949'682'960 }; // 2^32 and 1000 bytes
  d.flow.sent_window = 65'535;
  for (int i = 0; i < 300; ++i)
    ASSERT_EQ(d.ack(10'000'000, 65'535, 1), 65'535) << i;
}

} // namespace
} // namespace tandem::rate
