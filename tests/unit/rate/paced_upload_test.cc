#include "modules/rate/rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace tandem::rate
{
namespace
{

using namespace tandem::literals;

// An upload through a queue: the card sends `capacity`, the sender as fast as it is paced, or as its window allows.
struct Path
{
  PacedUpload upload {};
  FlowView flow {};
  Tick now { 1s };
  double capacity = 10e6; // bits/s
  double window = 400e3;  // bytes in flight at most
  double grown = 15e3;
  double queue = 0, sent = 0, acked = 0; // bytes
  double paced = 0;                      // bits/s
  int told = 0;
  Duration rtt { 30ms };
  std::optional<Tick> awaited {};
  Seq edge { 1 };
  std::function<void(const Segment*)> deliver = [this](const Segment* one) { upload.measure(one, flow, now); };
  bool blind = false; // no round trip is measured

  Path()
  {
    flow.bypass = Bypass::none;
    flow.link = Link::wifi;
    flow.mss = 1448;
  }
  // A segment that leaves now is acknowledged a round trip later.
  void show()
  {
    Segment data {}, ack {};
    data.direction = Direction::egress;
    data.flags = ack.flags = tcp_flag::ack;
    data.payload_length = 1448;
    ack.direction = Direction::ingress;
    if (awaited && now >= *awaited)
    {
      awaited.reset();
      ack.ack = edge;
      deliver(&ack);
    }
    if (awaited) return deliver(nullptr);
    data.seq = edge;
    edge = edge + 1448;
    awaited = now + rtt;
    deliver(&data);
  }
  void run(double time, double headroom)
  {
    for (int i = 0; i < time * 100; ++i)
    {
      now += 10ms;
      grown = std::min(window, 1.2 * grown); // slow start
      const double room = std::max(0.0, grown - queue);
      const double came = paced > 0 ? std::min(room, paced / 800) : room;
      const double left = std::min(queue + came, capacity / 800);
      queue += came - left;
      sent += came;
      acked += left;
      flow.snd_una = Seq { static_cast<std::uint32_t>(acked) };
      flow.snd_nxt = Seq { static_cast<std::uint32_t>(acked + queue + 40e3) };
      rtt = 30ms + std::chrono::duration_cast<Duration>(std::chrono::duration<double> { queue * 8 / capacity });
      if (!blind) show();
      if (headroom == 0) continue;
      if (const auto pace = upload.pace(flow, now, headroom))
      {
        paced = *pace;
        ++told;
      }
    }
  }
};

TEST(paced_upload, does_not_time_what_is_sent_twice)
{
  PacedUpload upload;
  FlowView flow {};
  Segment data {}, ack {};
  data.direction = Direction::egress;
  data.payload_length = 1000;
  ack.direction = Direction::ingress;
  ack.flags = tcp_flag::ack;
  ack.ack = Seq { 1000 };
  const Tick now { 1s };
  upload.measure(&data, flow, now);
  upload.measure(&data, flow, now + 200ms); // again
  upload.measure(&ack, flow, now + 210ms);
  EXPECT_EQ(upload.least_round_trip(), Duration {});
  data.seq = Seq { 1000 };
  ack.ack = Seq { 2000 };
  upload.measure(&data, flow, now + 300ms);
  upload.measure(&ack, flow, now + 330ms);
  EXPECT_EQ(upload.least_round_trip(), 30ms);
}

TEST(paced_upload, empties_the_queue_and_keeps_the_rate)
{
  Path path;
  path.run(3, 0);
  EXPECT_GT(path.rtt, 200ms) << "the queue of any upload";
  const double before = path.acked;
  path.run(4, 1.5);
  EXPECT_LT(path.rtt, 90ms);
  EXPECT_GT((path.acked - before) * 8 / 4, 0.9 * path.capacity);
  EXPECT_LT(path.told, 4 * 10 + 2);
}

TEST(paced_upload, follows_a_rate_that_falls_and_does_not_sink_by_itself)
{
  Path path;
  path.run(3, 0);
  path.run(2, 1.1);
  path.capacity = 4e6;
  path.run(3, 1.1);
  const double before = path.acked;
  path.run(5, 1.1);
  EXPECT_LT(path.rtt, 200ms) << "unbounded: 830 ms";
  EXPECT_GT((path.acked - before) * 8 / 5, 0.85 * path.capacity);
}

TEST(paced_upload, bounds_nothing_in_doubt)
{
  Path idle;
  idle.window = 0;
  idle.run(1, 0);
  idle.flow.snd_nxt = idle.flow.snd_una;
  EXPECT_FALSE(idle.upload.pace(idle.flow, idle.now, 1.5)) << "nothing waits";
  Path blind;
  blind.blind = true;
  blind.run(2, 0);
  EXPECT_FALSE(blind.upload.pace(blind.flow, blind.now, 1.5)) << "no round trip is known";
  Path foreign;
  foreign.run(2, 0);
  foreign.flow.bypass = Bypass::mid_flow;
  EXPECT_FALSE(foreign.upload.pace(foreign.flow, foreign.now, 1.5));
}

TEST(paced_upload, says_the_same_again_before_it_lapses)
{
  Path path;
  path.run(3, 1.5);
  const int before = path.told;
  path.run(10, 1.5);
  EXPECT_GE(path.told - before, 10);
}

// The module's stages, with a flow that uploads.
struct Module
{
  RatePolicy rate {};
  LinkStates links {};
  Path path {};
  alignas(std::max_align_t) std::array<std::byte, sizeof(State)> state {};

  Module()
  {
    links[static_cast<std::size_t>(Link::wifi)] = { .present = true, .up = true, .route = true };
    rate.flow_begin(state.data(), path.flow);
    path.deliver = [this](const Segment* one) { tell(one); };
  }
  ~Module() { rate.flow_end(state.data()); }
  void signal(float dbm) { links[static_cast<std::size_t>(Link::wifi)].radio = RadioState { .signal = dbm }; }
  void tell(const Segment* segment)
  {
    const Event event { .kind = segment != nullptr ? EventKind::segment : EventKind::alarm,
                        .now = path.now,
                        .segment = segment,
                        .links = &links };
    const Plan plan = static_cast<tandem::Module&>(rate).decide(event, path.flow, state.data());
    if (!plan.pace) return;
    last = plan.pace->rate;
    path.paced = *last;
    EXPECT_FALSE(plan.why.empty());
  }
  // The last pace that was asked for in this time.
  std::optional<double> run(double time)
  {
    last.reset();
    path.run(time, 0);
    return last;
  }
  std::optional<double> last {};
};

TEST(paced_upload, is_of_the_stages_before_a_handoff_alone)
{
  Module with;
  with.rate.set("uploads", 1);
  with.signal(-50);
  EXPECT_FALSE(with.run(3)) << "stationary";
  with.signal(-71); // 24 dB over the noise: pre-handoff
  const auto paced = with.run(3);
  ASSERT_TRUE(paced);
  EXPECT_GT(*paced, 0);
  with.signal(-45);
  EXPECT_EQ(with.run(3), 0) << "taken away";
  EXPECT_FALSE(with.run(3));
  with.signal(-71);
  EXPECT_TRUE(with.run(3));
  with.links[static_cast<std::size_t>(Link::wifi)].up = false;
  EXPECT_EQ(with.run(0.1), 0) << "the link is gone";
}

TEST(paced_upload, is_asked_for_only_when_it_is_switched_on)
{
  Module without;
  without.signal(-71);
  EXPECT_FALSE(without.run(4));
  EXPECT_EQ(without.rate.interest().observe & traffic::egress_data, 0u);
  without.rate.set("uploads", 1);
  EXPECT_NE(without.rate.interest().observe & traffic::egress_data, 0u);
  EXPECT_NE(without.rate.interest().observe & traffic::ingress_ack, 0u);
  EXPECT_TRUE(without.run(4));
  without.rate.set("uploads", 0);
  EXPECT_EQ(without.run(0.1), 0) << "taken away with the knob";
}

TEST(paced_upload, is_never_of_another_link)
{
  Module other;
  other.rate.set("uploads", 1);
  other.path.flow.link = Link::cell;
  other.signal(-71);
  EXPECT_FALSE(other.run(4));
}

// S1 and S2 over -95 dBm, the rates by algorithm 2.
struct PublishedModule : Module
{
  PublishedModule()
  {
    rate.set("uploads", 1);
    rate.set("strategy", 1);
  }
  void hear(float signal, float candidate)
  {
    links[static_cast<std::size_t>(Link::wifi)].radio = RadioState { .signal = signal, .candidate = candidate };
  }
};

TEST(paced_upload, as_published_is_let_go_when_r0_is_reached)
{
  PublishedModule with;
  with.hear(-71, -75);
  const auto paced = with.run(4);
  ASSERT_TRUE(paced);
  EXPECT_GT(*paced, 0);
  with.rate.set("r0", 1e6); // R_tot is more
  EXPECT_EQ(with.run(1), 0) << "algorithm 2 asks for nothing any more";
  EXPECT_FALSE(with.run(1)) << "once";
}

TEST(paced_upload, as_published_a_rate_of_nothing_is_not_as_much_as_it_likes)
{
  PublishedModule with;
  with.rate.set("r1h", 0);
  with.hear(-76, -50); // S1 is 26 dB below S2: beyond the handoff trigger, where the line has come to 0
  const auto paced = with.run(6);
  ASSERT_TRUE(paced);
  EXPECT_LT(*paced, 4.2e6) << "ten segments a round trip";
}

} // namespace
} // namespace tandem::rate
