#include "src/links/blackout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <utility>

namespace tandem::links
{
namespace
{

using namespace tandem::literals;
using feeder::RadioEvent;
using feeder::RadioEventKind;

// A made-up link with a gateway and, perhaps, a radio, in steps of a millisecond.
class World : public testing::Test
{
protected:
  BlackoutDetector detector {};
  Tick now { 100s };
  bool alive = true;   // frames pass
  bool gateway = true; // it answers probes
  Duration gateway_rtt = 3ms;
  bool radio = false;           // somebody listens to the air
  bool radio_delivers = true;   // and hands on what was heard
  bool acknowledgements = true; // this radio shows them
  std::uint64_t sent = 0;       // probes
  Duration lateness {};         // of each look

  void SetUp() override
  {
    detector.watch(true, now);
    detector.new_gateway(true, now);
  }

  void listen()
  {
    radio = true;
    detector.radio_present(true, now);
  }

  using Source = std::function<unsigned(Duration)>; // packets that the server sends in the millisecond
  static Source steady(unsigned per_ms)
  {
    return [per_ms](Duration) { return per_ms; };
  }
  static Source quiet() { return steady(0); }
  // `length` of packets at the beginning of every `period`.
  static Source bursts(Duration period, Duration length)
  {
    return [period, length](Duration at) { return at % period < length ? 2u : 0u; };
  }

  void run(Duration span, const Source& source)
  {
    for (const Tick end = now + span; now < end; now += 1ms)
    {
      pass_air();
      bool event = now >= next_;
      if (alive)
      {
        const unsigned packets = source(now - Tick {});
        total_ += packets;
        if (packets > 0)
        {
          hear(RadioEventKind::heard);
          if (!detector.up()) event = true; // the bell
        }
        if ((now - Tick {}) % 102ms == 0ms) hear(RadioEventKind::beacon);
        while (!answers_.empty() && answers_.front() <= now)
        {
          answers_.pop_front();
          ++total_;
          detector.probe_answered(now);
          event = true;
        }
      }
      if (event) look();
    }
  }

  // Runs until the verdict changes; how long that took.
  Duration until_change(Duration most, const Source& source)
  {
    const Tick begin = now;
    const bool before = detector.up();
    while (detector.up() == before && now - begin < most)
      run(1ms, source);
    return now - begin;
  }

  // This host sends a packet each `every`, to a server that answers while the link is alive, or to nobody.
  void ask(Duration span, Duration every, bool answered = true)
  {
    for (const Tick end = now + span; now < end;)
    {
      ++sent_total_;
      if (alive && answered) ++total_;
      run(every, quiet());
    }
  }

  void hear(RadioEventKind kind)
  {
    if (kind == RadioEventKind::acknowledged && !acknowledgements) return;
    if (radio && radio_delivers) detector.radio({ .kind = kind, .at = now }, now);
  }

  void look()
  {
    detector.received_total(total_, now);
    detector.sent_total(sent_total_, now);
    const auto step = detector.advance(now);
    next_ = step.next + lateness;
    if (!step.send_probe) return;
    ++sent;
    detector.probe_sent(now);
    ++sent_total_;
    transmit();
  }

  // What becomes of a probe: an acknowledgement at once, or nothing.
  virtual void transmit()
  {
    if (alive) hear(RadioEventKind::acknowledged);
    if (alive && gateway) answers_.push_back(now + gateway_rtt);
  }
  // What goes on between ourselves and the access point besides, a millisecond of it.
  virtual void pass_air() {}

  std::uint64_t verdicts() const
  {
    std::uint64_t all = 0;
    for (const auto count : detector.counters().verdicts)
      all += count;
    return all;
  }

  std::uint64_t total_ = 1000, sent_total_ = 500;
  Tick next_ {};
  std::deque<Tick> answers_ {};
};

TEST_F(World, a_busy_link_that_falls_silent_is_down_within_300_ms)
{
  run(3s, steady(2));
  EXPECT_TRUE(detector.gateway_answers());
  alive = false;
  EXPECT_LE(until_change(2s, steady(2)), 300ms);
  EXPECT_FALSE(detector.up());
  EXPECT_EQ(detector.cause(), BlackoutCause::silence);
  EXPECT_EQ(detector.counters().false_alarms, 0u);
}

TEST_F(World, it_stays_down_until_something_arrives_and_then_is_up_at_once)
{
  run(3s, steady(2));
  alive = false;
  run(5s, steady(2));
  ASSERT_FALSE(detector.up());
  alive = true;
  EXPECT_LE(until_change(1s, steady(1)), 2ms);
  EXPECT_EQ(detector.counters().false_alarms, 0u);
  EXPECT_EQ(verdicts(), 1u);
}

TEST_F(World, without_traffic_a_probe_tells_that_it_is_back_within_two_probe_intervals)
{
  run(3s, steady(2));
  alive = false;
  run(1s, steady(2));
  ASSERT_FALSE(detector.up());
  alive = true;
  EXPECT_LE(until_change(1s, quiet()), 8ms + gateway_rtt + 2ms);
}

TEST_F(World, probes_of_a_link_that_is_down_grow_rare)
{
  run(3s, steady(2));
  alive = false;
  run(500ms, steady(2));
  const auto first = sent;
  run(1s, quiet());
  EXPECT_NEAR(static_cast<double>(sent - first), 90, 12);
  run(20s, quiet());
  const auto later = sent;
  run(10s, quiet());
  EXPECT_NEAR(static_cast<double>(sent - later), 200, 10);
}

// A driver keeps what it is given for an access point that is away, and sends it when it is back.
class Keeping : public World
{
protected:
  bool keeps = true;

  void transmit() override
  {
    if (alive || !keeps)
      World::transmit();
    else
      ++kept_;
  }
  void pass_air() override
  {
    if (!alive || now < at_) return;
    at_ = now + 1ms;
    if (std::exchange(kept_, kept_ - std::min(kept_, 1U)) > 0) World::transmit();
  }
  // A blackout, and two seconds after it; how many probes were sent into it.
  std::uint64_t blackout(Duration length)
  {
    alive = false;
    const auto before = sent;
    run(length, quiet());
    const auto into = sent - before;
    alive = true;
    run(2s, steady(2));
    EXPECT_TRUE(detector.up());
    return into;
  }

private:
  unsigned kept_ = 0;
  Tick at_ {};
};

TEST_F(Keeping, few_probes_are_sent_where_those_of_the_blackout_before_were_kept)
{
  run(3s, steady(2));
  EXPECT_GE(blackout(2s), 120u);
  EXPECT_LE(blackout(2s), 25u);
  EXPECT_LE(blackout(5s), 30u);
  EXPECT_EQ(verdicts(), 3u);
}

TEST_F(Keeping, where_they_are_kept_no_more_they_are_as_many_as_before)
{
  run(3s, steady(2));
  blackout(2s);
  keeps = false;
  EXPECT_LE(blackout(2s), 25u);
  EXPECT_GE(blackout(2s), 120u);
  keeps = true;
  EXPECT_GE(blackout(2s), 120u);
  EXPECT_LE(blackout(2s), 25u);
  detector.new_gateway(true, now);
  run(3s, steady(2));
  EXPECT_GE(blackout(2s), 120u);
}

TEST_F(Keeping, a_blackout_with_few_probes_says_nothing)
{
  run(3s, steady(2));
  keeps = false;
  for (int i = 0; i < 5; ++i)
    EXPECT_LE(blackout(170ms), 12u);
  keeps = true;
  EXPECT_GE(blackout(2s), 120u);
}

TEST_F(World, an_idle_link_is_never_probed)
{
  run(60s, [](Duration at) { return at % 400ms == 0ms ? 1u : 0u; }); // chatter
  EXPECT_EQ(sent, 0u);
  EXPECT_EQ(verdicts(), 0u);
  alive = false;
  run(60s, quiet());
  EXPECT_EQ(sent, 0u);
  EXPECT_TRUE(detector.up());
}

TEST_F(World, a_link_on_which_this_host_sends_and_nothing_comes_back_is_looked_into_and_is_down)
{
  run(2s, steady(5)); // the gateway is known to answer
  run(5s, quiet());
  ask(3s, 100ms);
  EXPECT_EQ(detector.counters().unanswered, 0u) << "every packet is answered";
  alive = false;
  const Tick gone = now;
  while (detector.up() && now - gone < 3s)
    ask(100ms, 100ms);
  EXPECT_LE(now - gone, 1200ms);
  EXPECT_EQ(detector.cause(), BlackoutCause::silence);
  EXPECT_EQ(detector.counters().unanswered, 1u);
  run(1s, quiet());
  alive = true;
  EXPECT_LE(until_change(1s, quiet()), 12ms + gateway_rtt + 2ms);
}

TEST_F(World, whether_the_gateway_answers_is_learned_of_a_link_that_is_never_busy)
{
  ask(2s, 100ms);
  EXPECT_TRUE(detector.gateway_answers());
  const std::uint64_t learned = sent;
  EXPECT_LE(learned, 2u);
  ask(60s, 100ms);
  EXPECT_EQ(sent, learned);
  alive = false;
  const Tick gone = now;
  while (detector.up() && now - gone < 3s)
    ask(100ms, 100ms);
  EXPECT_LE(now - gone, 1200ms);
}

TEST_F(World, packets_that_nobody_answers_cost_ever_fewer_probes_and_no_verdict)
{
  run(2s, steady(5));
  run(5s, quiet());
  const std::uint64_t before = sent;
  ask(120s, 50ms, false);
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_GE(detector.counters().unanswered, 4u);
  EXPECT_LE(sent - before, 24u);
}

TEST_F(World, of_what_is_sent_once_nothing_is_suspected)
{
  run(2s, steady(5));
  run(5s, quiet());
  const std::uint64_t before = sent;
  for (int i = 0; i < 20; ++i)
  {
    ++sent_total_; // a farewell
    run(3s, quiet());
    ++total_; // and something else arrives
    run(1s, quiet());
  }
  EXPECT_EQ(sent, before);
}

TEST_F(World, where_the_gateway_never_answers_what_is_sent_proves_nothing)
{
  gateway = false;
  run(2s, steady(5));
  run(5s, quiet());
  alive = false;
  ask(10s, 100ms);
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_EQ(detector.counters().unanswered, 0u);
}

TEST_F(World, an_idle_link_wakes_nobody_up_more_than_four_times_a_second)
{
  run(1s, quiet());
  look();
  EXPECT_GE(next_ - now, 250ms);
}

TEST_F(World, bursts_of_an_application_limited_sender_raise_no_alarm_and_ever_fewer_suspicions)
{
  for (const Duration period : { 150ms, 300ms, 1000ms, 2500ms })
  {
    SCOPED_TRACE(period.count());
    run(30s, bursts(period, 40ms));
    EXPECT_EQ(verdicts(), 0u);
  }
  const auto before = detector.counters().suspicions;
  run(30s, bursts(150ms, 40ms));
  EXPECT_LT(detector.counters().suspicions - before, 10u) << "pauses of 110 ms are known by now";
  EXPECT_EQ(detector.counters().false_alarms, 0u);
}

TEST_F(World, a_blackout_behind_a_bursty_sender_is_still_found_within_half_a_second_of_its_last_burst)
{
  run(60s, bursts(500ms, 100ms));
  while (detector.up() && (now - Tick {}) % 500ms != 100ms)
    run(1ms, bursts(500ms, 100ms));
  alive = false;
  EXPECT_LE(until_change(2s, quiet()), 550ms);
  EXPECT_FALSE(detector.up());
}

TEST_F(World, pauses_of_a_sender_that_recovers_do_not_delay_the_next_verdict)
{
  run(3s, steady(2));
  for (int i = 0; i < 5; ++i)
  {
    SCOPED_TRACE(i);
    alive = false;
    EXPECT_LE(until_change(2s, quiet()), 180ms);
    run(500ms, quiet());
    alive = true;
    for (int pause = 0; pause < 4; ++pause) // timeouts, and a little data behind each
    {
      run(150ms, quiet());
      run(50ms, steady(2));
    }
    run(1800ms, steady(2));
  }
  EXPECT_EQ(detector.counters().false_alarms, 0u);
}

TEST_F(World, a_server_that_stops_raises_no_alarm_and_is_soon_left_alone)
{
  run(3s, steady(2));
  run(3s, quiet());
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_GE(detector.counters().cleared_by_probe, 1u);
  const auto before = sent;
  run(60s, quiet());
  EXPECT_EQ(sent, before);
}

TEST_F(World, suspicion_probes_keep_their_rate_limit_whatever_the_traffic_does)
{
  gateway_rtt = 90ms; // every suspicion takes several probes
  for (const Duration period : { 100ms, 130ms, 270ms, 700ms })
    run(15s, bursts(period, 30ms));
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_LE(sent, 60 * BlackoutDetector::probes_per_second + BlackoutDetector::probe_burst);
}

TEST_F(World, probes_that_nobody_answers_keep_the_rate_limit_too)
{
  detector = BlackoutDetector { { .silence = 30ms, .silence_longest = 30ms, .pause = 30ms, .pause_longest = 30ms } };
  SetUp();
  run(3s, steady(2)); // the gateway answers
  gateway = false;
  const auto before = sent;
  run(30s, bursts(130ms, 20ms)); // every pause is suspicious, and over before it is told
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_GE(sent - before, 550u) << "the limit is met";
  EXPECT_LE(sent - before, 30 * BlackoutDetector::probes_per_second + BlackoutDetector::probe_burst);
}

// A station that dozes would be woken by a probe, and the answers that follow would be sooner than those before.
TEST_F(World, flights_of_a_young_flow_over_a_long_path_are_not_looked_into)
{
  run(2s, steady(2)); // the gateway answers
  run(5s, quiet());
  std::uint64_t suspicions = 0;
  for (int upload = 0; upload < 6; ++upload)
  {
    const auto before = detector.counters().suspicions;
    run(1200ms, bursts(200ms, 20ms)); // slow start
    run(800ms, steady(2));
    suspicions += detector.counters().suspicions - before;
    run(3s, quiet());
  }
  EXPECT_EQ(suspicions, 0u);
  run(20s, steady(2));
  alive = false;
  EXPECT_LE(until_change(2s, quiet()), 220ms) << "a flow that fills its path is believed as before";
}

// Nor is the first of them, however long the path.
TEST_F(World, the_first_pause_of_all_is_not_looked_into_early)
{
  run(2s, steady(2)); // the gateway answers
  run(5s, quiet());
  const auto before = detector.counters().suspicions;
  run(100ms, steady(2));
  run(350ms, quiet());
  run(100ms, steady(2));
  EXPECT_EQ(detector.counters().suspicions, before);
  alive = false;
  EXPECT_LE(until_change(2s, quiet()), 650ms) << "400 ms, or a quarter more than that pause, and 100 for the verdict";
}

// On a busy machine looks come late, and each sees nothing for so long and then much at once.
TEST_F(World, late_looks_are_no_pauses)
{
  run(2s, steady(1));
  lateness = 70ms;
  run(3s, steady(1));
  lateness = {};
  alive = false;
  EXPECT_LE(until_change(2s, quiet()), 220ms);
}

TEST_F(World, gaps_that_are_usual_are_not_suspicious)
{
  run(3s, bursts(50ms, 5ms)); // 45 ms of nothing, again and again
  run(40ms, quiet());         // 85 ms since the last packet
  EXPECT_EQ(detector.counters().suspicions, 0u);
}

TEST_F(World, a_trickle_seen_by_a_slow_look_is_not_busy)
{
  run(20s, [](Duration at) { return at % 11ms == 0ms ? 1u : 0u; }); // 23 in 250 ms, but 18 in 200 ms
  EXPECT_EQ(sent, 0u);
}

TEST_F(World, a_silent_radio_does_not_make_a_witness_of_a_silent_gateway)
{
  listen();
  gateway = false;
  run(3s, steady(2));
  acknowledgements = false;
  // Beacons go on, and nothing else: who sent what to whom cannot be told.
  for (int i = 0; i < 20; ++i)
  {
    run(30ms, quiet()); // long enough to be suspicious, too short for the radio's verdict
    hear(RadioEventKind::beacon);
  }
  EXPECT_EQ(verdicts(), 0u);
}

TEST_F(World, a_gateway_that_never_answers_is_no_evidence)
{
  gateway = false;
  run(10s, steady(2));
  EXPECT_LE(sent, 6u) << "it is asked a few times only";
  alive = false;
  run(10s, quiet());
  EXPECT_TRUE(detector.up());
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_EQ(detector.counters().unprovable, 1u);
}

TEST_F(World, a_gateway_of_a_new_association_must_answer_first)
{
  run(3s, steady(2));
  detector.carrier(false, now);
  EXPECT_EQ(detector.cause(), BlackoutCause::carrier);
  gateway = false;
  run(100ms, quiet());
  detector.carrier(true, now);
  EXPECT_TRUE(detector.up());
  run(2s, steady(2));
  alive = false;
  run(3s, quiet());
  EXPECT_TRUE(detector.up());
}

TEST_F(World, a_slow_gateway_is_given_four_of_its_round_trips)
{
  detector = BlackoutDetector { { .silence_longest = 60ms } }; // no timeout that blurs the figure
  SetUp();
  gateway_rtt = 60ms;
  run(3s, steady(2));
  run(200ms, quiet()); // its answer to a suspicion is timed
  ASSERT_EQ(verdicts(), 0u);
  ASSERT_GE(detector.probe_rtt(), 55ms);
  run(3s, steady(2));
  alive = false;
  const Duration took = until_change(3s, quiet());
  EXPECT_FALSE(detector.up());
  EXPECT_GE(took, 60ms + 4 * 60ms);
  EXPECT_LE(took, 60ms + 4 * 60ms + 30ms);
}

TEST_F(World, an_answer_that_waited_behind_data_says_nothing_of_a_silent_link)
{
  gateway_rtt = 60ms; // the queue of a busy access point
  run(3s, steady(2));
  ASSERT_TRUE(detector.gateway_answers());
  alive = false;
  EXPECT_LE(until_change(3s, quiet()), 180ms);
}

TEST_F(World, a_very_slow_gateway_is_wronged_once)
{
  detector = BlackoutDetector { { .silence_longest = 60ms } };
  SetUp();
  gateway_rtt = 130ms;
  run(3s, steady(2));
  for (int i = 0; i < 5; ++i)
  {
    run(300ms, quiet());
    run(2500ms, steady(2));
  }
  EXPECT_EQ(detector.counters().false_alarms, 1u);
  EXPECT_EQ(verdicts(), 1u);
}

TEST_F(World, the_carrier_decides_at_once_and_alone)
{
  detector.carrier(false, now);
  EXPECT_FALSE(detector.up());
  detector.frame_arrived(now + 1ms); // was on its way up the stack
  EXPECT_FALSE(detector.up());
  detector.announce(Announcement::up, 1s, now + 1ms);
  EXPECT_FALSE(detector.up());
  detector.carrier(true, now + 5ms);
  EXPECT_TRUE(detector.up());
  EXPECT_EQ(detector.last_up(), now + 5ms);
}

TEST_F(World, a_link_that_comes_back_with_its_carrier_is_probed_at_once)
{
  run(1s, steady(2));
  detector.carrier(false, now);
  run(100ms, quiet());
  const auto before = sent;
  detector.carrier(true, now);
  look();
  EXPECT_EQ(sent, before + 1);
}

TEST_F(World, a_verdict_that_is_contradicted_at_once_was_a_false_alarm)
{
  run(3s, steady(2));
  alive = false;
  until_change(2s, quiet());
  ASSERT_FALSE(detector.up());
  alive = true;
  run(20ms, steady(2));
  EXPECT_TRUE(detector.up());
  EXPECT_EQ(detector.counters().false_alarms, 1u);
  // The next silence is given more time.
  run(3s, steady(2));
  alive = false;
  EXPECT_GT(until_change(2s, quiet()), 200ms);
}

TEST_F(World, nothing_is_asked_while_nobody_wants_to_know)
{
  detector.watch(false, now);
  next_ = now;
  run(3s, steady(2));
  alive = false;
  run(3s, quiet());
  EXPECT_EQ(sent, 0u);
  EXPECT_TRUE(detector.up());
  detector.carrier(false, now);
  EXPECT_FALSE(detector.up());
}

TEST_F(World, a_verdict_ends_with_the_watch)
{
  run(3s, steady(2));
  alive = false;
  run(1s, quiet());
  ASSERT_FALSE(detector.up());
  detector.watch(false, now);
  EXPECT_TRUE(detector.up());
}

TEST_F(World, a_counter_that_starts_anew_is_no_traffic)
{
  run(3s, steady(2));
  total_ = 5;
  run(50ms, steady(2));
  EXPECT_TRUE(detector.up());
  EXPECT_EQ(verdicts(), 0u);
}

// ---- the radio ----

TEST_F(World, a_radio_that_hears_nothing_tells_within_60_ms)
{
  listen();
  run(3s, steady(2)); // the acknowledgement of the first probe has been seen
  alive = false;
  EXPECT_LE(until_change(1s, quiet()), 60ms);
  EXPECT_EQ(detector.cause(), BlackoutCause::radio);
}

TEST_F(World, a_transmission_given_up_is_proof_even_sooner)
{
  listen();
  run(3s, steady(2));
  alive = false;
  run(25ms, quiet());
  ASSERT_TRUE(detector.suspicious());
  hear(RadioEventKind::failed);
  run(6ms, quiet());
  EXPECT_EQ(detector.cause(), BlackoutCause::radio);
}

TEST_F(World, a_failed_transmission_on_a_link_that_delivers_is_nothing)
{
  listen();
  run(3s, steady(2));
  hear(RadioEventKind::failed);
  run(1s, steady(2));
  EXPECT_EQ(verdicts(), 0u);
}

TEST_F(World, a_server_that_pauses_is_told_from_a_silent_radio_by_an_acknowledgement)
{
  listen();
  for (const Duration period : { 150ms, 300ms, 1000ms })
    run(20s, bursts(period, 50ms));
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_GE(detector.counters().cleared_by_probe, 1u);
}

TEST_F(World, a_radio_that_shows_no_acknowledgements_proves_nothing_by_their_absence)
{
  listen();
  acknowledgements = false;
  run(3s, steady(2));
  alive = false;
  until_change(1s, quiet());
  EXPECT_EQ(detector.cause(), BlackoutCause::silence);
}

TEST_F(World, a_stale_radio_does_not_count)
{
  listen();
  run(3s, steady(2));
  radio_delivers = false;
  run(3s, steady(2)); // packets arrive, the radio is silent
  EXPECT_TRUE(detector.up());
  EXPECT_FALSE(detector.radio_usable());
  EXPECT_EQ(detector.counters().radio_stale, 1u);
  EXPECT_EQ(verdicts(), 0u);
  alive = false;
  const Duration took = until_change(1s, quiet());
  EXPECT_EQ(detector.cause(), BlackoutCause::silence);
  EXPECT_LE(took, 300ms);
}

TEST_F(World, a_radio_that_is_gone_does_not_count)
{
  listen();
  run(3s, steady(2));
  run(1s, quiet());
  run(1s, steady(2));
  detector.radio_present(false, now);
  radio = false;
  run(1s, steady(2));
  alive = false;
  until_change(1s, quiet());
  EXPECT_EQ(detector.cause(), BlackoutCause::silence);
}

TEST_F(World, a_disconnect_counts_at_once_and_ends_with_an_association)
{
  listen();
  run(1s, steady(2));
  hear(RadioEventKind::disconnected);
  EXPECT_EQ(detector.cause(), BlackoutCause::disconnected);
  now += 50ms;
  hear(RadioEventKind::associated);
  EXPECT_TRUE(detector.up());
}

// The driver's word may come behind the kernel's, and what arrived before is counted after both.
TEST_F(World, without_a_carrier_nothing_is_up_whatever_the_driver_says)
{
  listen();
  run(1s, steady(2));
  detector.carrier(false, now);
  hear(RadioEventKind::disconnected);
  EXPECT_EQ(detector.cause(), BlackoutCause::carrier);
  detector.frame_arrived(now);
  EXPECT_FALSE(detector.up());
  detector.watch(false, now);
  EXPECT_FALSE(detector.up());
  detector.carrier(true, now);
  EXPECT_TRUE(detector.up());
}

TEST_F(World, forged_deauthentications_are_counted_and_change_nothing)
{
  listen();
  run(3s, steady(2));
  const auto probes = sent;
  for (int i = 0; i < 100; ++i)
  {
    detector.radio({ .kind = RadioEventKind::heard, .at = now, .deauthentication = true }, now);
    run(10ms, steady(2));
  }
  EXPECT_TRUE(detector.up());
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_EQ(detector.counters().suspicions, 0u);
  EXPECT_EQ(sent, probes);
  EXPECT_EQ(detector.counters().deauthentications, 100u);
}

TEST_F(World, a_beacon_calls_for_a_probe_but_is_no_link)
{
  listen();
  run(3s, steady(2));
  alive = false;
  run(15s, quiet()); // probes are 50 ms apart by now
  ASSERT_FALSE(detector.up());
  look();
  now += 10ms;
  const auto before = sent;
  hear(RadioEventKind::beacon);
  EXPECT_FALSE(detector.up());
  look();
  EXPECT_EQ(sent, before + 1);
}

// ---- a radio that shows each attempt ----

// Probes and TCP acknowledgements take their turns on the air and fail as it is said.
class Air : public World
{
protected:
  Duration access = 1ms;
  unsigned lost_of_7 = 0; // attempts of seven that fail, in no simple order
  bool others = false;
  bool driver_holds = false; // while the link is away, what is sent stays in the driver

  void SetUp() override
  {
    World::SetUp();
    listen();
  }

  void transmit() override { waiting_.push_back(true); }

  void pass_air() override
  {
    if (others) hear(RadioEventKind::other);
    if (alive && total_ != confirmed_ && waiting_.size() < 2)
    {
      confirmed_ = total_;
      waiting_.push_back(false);
    }
    if (waiting_.empty() || now < free_ || (!alive && driver_holds)) return;
    free_ = now + access;
    detector.radio({ .kind = RadioEventKind::sent, .at = now, .attempt = true, .retry = tries_ > 0 }, now);
    ++tries_;
    attempts_ = (attempts_ + 3) % 7; // 3, 6, 2, 5, 1, 4, 0
    const bool heard = alive && attempts_ >= lost_of_7;
    if (heard) hear(RadioEventKind::acknowledged);
    if (!heard && tries_ < 7) return;
    if (heard && waiting_.front() && gateway) answers_.push_back(now + gateway_rtt);
    waiting_.pop_front();
    tries_ = 0;
  }

  std::deque<bool> waiting_ {}; // frames of ours; true: a probe
  std::uint64_t confirmed_ = 1000;
  Tick free_ {};
  unsigned tries_ = 0, attempts_ = 0;
};

TEST_F(Air, a_clean_link_that_dies_is_told_within_60_ms)
{
  run(3s, steady(2));
  for (const bool holds : { false, true })
  {
    SCOPED_TRACE(holds);
    driver_holds = holds;
    alive = false;
    EXPECT_LE(until_change(1s, quiet()), 60ms);
    EXPECT_EQ(detector.cause(), BlackoutCause::radio);
    run(500ms, quiet());
    alive = true;
    run(3s, steady(2));
  }
  EXPECT_EQ(detector.counters().held_back, 0u);
  EXPECT_EQ(detector.counters().false_alarms, 0u);
}

TEST_F(Air, an_access_point_that_misses_most_attempts_among_others_is_not_taken_for_gone)
{
  others = true;
  access = 15ms;
  for (int i = 0; i < 20; ++i)
  {
    lost_of_7 = 4; // how often attempts fail, and how long they wait, is learned
    run(2s, steady(1));
    lost_of_7 = 6; // bad luck, while the server pauses
    run(300ms, quiet());
  }
  EXPECT_GE(detector.counters().suspicions, 10u);
  EXPECT_EQ(verdicts(), 0u);
  EXPECT_GE(detector.counters().held_back, 1u);
  EXPECT_LT(detector.odds().access(false), 3ms) << "of the channel alone nothing is known";
}

TEST_F(Air, such_a_link_that_dies_is_told_within_a_stated_time_all_the_same)
{
  others = true;
  access = 40ms;
  lost_of_7 = 6;
  const Source server = bursts(200ms, 20ms);
  run(20s, server);
  ASSERT_EQ(verdicts(), 0u);
  ASSERT_GT(std::pow(detector.odds().failing(), 8), AttemptOdds::beyond_chance)
      << "the attempts alone would take longer";
  for (const bool holds : { false, true })
  {
    SCOPED_TRACE(holds);
    driver_holds = holds;
    while ((now - Tick {}) % 200ms != 15ms)
      run(1ms, server);
    alive = false;
    // Silence that raises a suspicion where pauses are usual, and what a verdict is held back at most.
    EXPECT_LE(until_change(2s, quiet()), 250ms + BlackoutDetector::held_back_most + 20ms);
    EXPECT_FALSE(detector.up());
    run(2s, quiet());
    alive = true;
    run(20s, server);
    EXPECT_TRUE(detector.up());
  }
}

TEST_F(Air, a_real_blackout_teaches_nothing_however_short)
{
  run(3s, steady(2));
  const double failing = detector.odds().failing(), enough = detector.odds().enough(now);
  const Duration usual = detector.odds().access(false);
  for (const bool holds : { false, true })
    for (const Duration more : { 5ms, 100ms, 2000ms }) // after the verdict
    {
      SCOPED_TRACE(testing::Message() << holds << ' ' << more.count());
      driver_holds = holds;
      alive = false;
      until_change(1s, quiet());
      ASSERT_FALSE(detector.up());
      run(more, quiet());
      alive = true;
      run(50ms, steady(2));
      ASSERT_TRUE(detector.up());
      EXPECT_NEAR(detector.odds().failing(), failing, 0.02);
      EXPECT_LT(detector.odds().access(false), usual + 500us);
      EXPECT_EQ(detector.odds().enough(now), enough);
      run(3s, steady(2));
    }
  EXPECT_EQ(detector.counters().false_alarms, 2u) << "the first ones were over at once";
  EXPECT_EQ(detector.counters().learned, 0u) << "but no link that is alive is silent like this";
}

TEST_F(Air, a_verdict_that_chance_may_have_brought_about_teaches_when_it_proves_wrong)
{
  others = true;
  access = 5ms;
  lost_of_7 = 4;
  run(10s, steady(1));
  const double enough = detector.odds().enough(now);
  lost_of_7 = 7; // an unlucky spell
  while (detector.up())
    run(1ms, quiet());
  lost_of_7 = 0;
  run(40ms, steady(1));
  ASSERT_TRUE(detector.up());
  EXPECT_EQ(detector.counters().learned, 1u);
  EXPECT_GT(detector.odds().enough(now), 1.5 * enough);
}

TEST_F(Air, another_access_point_is_not_judged_by_the_one_before)
{
  others = true;
  access = 15ms;
  lost_of_7 = 5;
  run(10s, steady(1));
  ASSERT_GT(detector.odds().failing(), 0.5);
  hear(RadioEventKind::associated);
  EXPECT_EQ(detector.odds().failing(), AttemptOdds {}.failing());
  run(5s, steady(1));
  detector.carrier(false, now);
  detector.carrier(true, now);
  EXPECT_EQ(detector.odds().failing(), AttemptOdds {}.failing());
}

// ---- announcements ----

TEST_F(World, an_announced_blackout_holds_for_its_time_whatever_arrives)
{
  run(1s, steady(2));
  detector.announce(Announcement::down, 500ms, now);
  EXPECT_EQ(detector.cause(), BlackoutCause::announced);
  next_ = now;
  run(490ms, steady(2));
  EXPECT_FALSE(detector.up());
  run(30ms, steady(2));
  EXPECT_TRUE(detector.up()) << "packets have arrived in the meantime";
  EXPECT_EQ(detector.counters().false_alarms, 0u);
}

TEST_F(World, an_announced_blackout_that_goes_on_stays_one)
{
  run(1s, steady(2));
  detector.announce(Announcement::down, 500ms, now);
  next_ = now;
  alive = false;
  run(2s, steady(2));
  EXPECT_FALSE(detector.up());
  alive = true;
  EXPECT_LE(until_change(1s, quiet()), 20ms);
}

TEST_F(World, an_announced_end_is_an_end_and_protects_for_its_time)
{
  run(3s, steady(2));
  alive = false;
  run(1s, quiet());
  ASSERT_FALSE(detector.up());
  detector.announce(Announcement::up, 400ms, now);
  EXPECT_TRUE(detector.up());
  next_ = now;
  run(390ms, quiet());
  EXPECT_TRUE(detector.up());
  run(1s, quiet());
  EXPECT_FALSE(detector.up()) << "evidence counts again";
}

TEST_F(World, an_announced_risk_expires)
{
  detector.announce(Announcement::risk, 300ms, now);
  EXPECT_TRUE(detector.risk_announced(now + 299ms));
  EXPECT_FALSE(detector.risk_announced(now + 300ms));
  EXPECT_TRUE(detector.up());
  EXPECT_EQ(detector.advance(now).next, now + 250ms) << "or sooner than the expiry";
  detector.announce(Announcement::up, 1s, now);
  EXPECT_FALSE(detector.risk_announced(now));
}

TEST_F(World, announcements_are_taken_also_while_nobody_watches)
{
  detector.watch(false, now);
  detector.announce(Announcement::down, 200ms, now);
  EXPECT_FALSE(detector.up());
  EXPECT_EQ(detector.advance(now).next, now + 200ms);
  detector.advance(now + 200ms);
  EXPECT_TRUE(detector.up());
}

} // namespace
} // namespace tandem::links
