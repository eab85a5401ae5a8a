// Weeks of kept connections: what is learned of a path, and what is done with it, is on the sixtieth day as on the
// second.
#include "tests/sim/endurance/laptop.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace tandem::test::days
{
namespace
{

using namespace std::chrono_literals;

constexpr Duration stream_every = ms(181);

// A laptop with four connections that stay, and one more every day.
struct Life
{
  struct With
  {
    Duration idle = 24h;
    double ppm = 0; // by which the servers' clocks are faster
    Paths paths {}; // good Wi-Fi, and a cellular link that is hardly slower
    std::vector<Module*> more {};
  };
  explicit Life(With with)
      : laptop { with.paths, with.idle, std::move(with.more) }, ppm { with.ppm }, minutely { laptop.open(ppm) },
        hourly { laptop.open(ppm) }, radio { laptop.open(ppm) }, bulk { laptop.open(ppm) }
  {
  }

  void day()
  {
    const Tick begin = Tick {} + 1s + 24h * days++;
    const Counts before = laptop.counts;
    laptop.seed();
    for (int hour = 8; hour < 24; ++hour)
    {
      laptop.run(begin + hour * 1h);
      hourly.ask(300'000);
      laptop.run_for(2s);
      if (hour == 12)
        listen();
      else if (hour == 18)
        download();
      else if (hour < 16)
        notify(begin + hour * 1h);
      look();
    }
    laptop.run(begin - 1s + 24h); // the night
    today = { laptop.counts.by_wifi - before.by_wifi, laptop.counts.by_cell - before.by_cell,
              laptop.counts.withheld - before.withheld };
    for (const Connection* one : { &minutely, &hourly, &radio, &bulk })
      if (!one->quiet()) say("a connection hangs");
    problems += laptop.wrong();
  }
  // An answer a minute that nobody has asked for, with blackouts in some of them and between others.
  void notify(Tick hour)
  {
    for (int minute = 1; minute < 59; ++minute)
    {
      laptop.run(hour + minute * 1min);
      minutely.push(60'000);
      if (minute % 20 == 7) black_out(ms(15), ms(700));
      if (minute % 20 == 13) black_out(10s, 5s);
    }
  }
  // 128 kb/s, for half an hour.
  void listen()
  {
    for (const Tick end = laptop.now() + 30min; laptop.now() < end; laptop.run_for(stream_every))
      radio.push(2896);
  }
  // With losses and blackouts.
  void download()
  {
    laptop.paths.loss = 0.0005;
    bulk.push(daily);
    laptop.run_for(4s);
    black_out(ms(0), ms(1500));
    black_out(4s, 8s);
    laptop.run_for(40s);
    Connection& young = laptop.open(ppm);
    for (int part = 0; part < 2; ++part)
    {
      young.push(daily / 8);
      laptop.run_for(1s);
      black_out(ms(0), ms(1200));
      laptop.run_for(60s);
    }
    if (!young.quiet()) say("a download hangs");
    laptop.paths.loss = 0;
  }
  void black_out(Duration after, Duration span)
  {
    laptop.run_for(after);
    laptop.links(false);
    laptop.run_for(span);
    laptop.links(true);
  }

  // Whether what is measured can be true of these paths.
  void look()
  {
    const Paths& p = laptop.paths;
    for (const Connection* one : { &minutely, &hourly, &radio, &bulk })
    {
      const FlowView* v = one->view();
      if (v == nullptr || v->rtt_smoothed == Duration {}) continue;
      const std::string of = " of connection " + std::to_string(v->key.local_port) + ": ";
      // What a stream with pauses echoes is as old as its pauses.
      const Duration longest = 2 * (p.wifi_rtt() + p.queue) + (one == &radio ? stream_every : Duration {});
      const auto sane = [&](Duration rtt) { return rtt >= p.wifi_rtt() - ms(2) && rtt <= longest; };
      if (!sane(v->rtt_smoothed)) say("smoothed RTT" + of + std::to_string(milliseconds(v->rtt_smoothed)));
      if (!sane(v->rtt_min)) say("least RTT" + of + std::to_string(milliseconds(v->rtt_min)));
      if (v->window_estimate > 2 * p.rate * seconds(p.wifi_rtt() + p.queue))
        say("window" + of + std::to_string(v->window_estimate));
    }
  }
  void say(const std::string& what)
  {
    if (problems.size() < 2000) problems += what + ", day " + std::to_string(days) + '\n';
  }

  static constexpr std::uint64_t daily = 72'000'000; // bytes: more than 4 GiB in 60 days
  Laptop laptop;
  double ppm;
  Connection &minutely, &hourly, &radio, &bulk;
  int days = 0;
  Counts today {};
  std::string problems {};
};

// Within a share of all ACKs of the day.
void expect_near(const Counts& now, const Counts& then, double share, const std::string& when)
{
  const double all = static_cast<double>(then.by_wifi + then.by_cell + then.withheld);
  const auto near = [&](std::uint64_t a, std::uint64_t b, const char* what)
  { EXPECT_NEAR(static_cast<double>(a), static_cast<double>(b), share * all) << what << when; };
  near(now.by_wifi, then.by_wifi, "by Wi-Fi, ");
  near(now.by_cell, then.by_cell, "by cellular, ");
  near(now.withheld, then.withheld, "withheld, ");
}

// How often the modules did something.
std::array<std::uint64_t, 3> deeds(const Laptop& laptop)
{
  return { laptop.fixture.count("freeze: resume ACK"), laptop.fixture.count("mirror: hidden, queue not full"),
           laptop.fixture.count("offload: path validated") };
}

// Every day from the second on is like the second.
std::unique_ptr<Life> live(Life::With with, int days, double share = 0.01)
{
  auto life = std::make_unique<Life>(std::move(with));
  Counts second {};
  for (int day = 1; day <= days && !::testing::Test::HasFailure(); ++day)
  {
    const std::string when = "day " + std::to_string(day);
    const auto before = deeds(life->laptop);
    life->day();
    EXPECT_EQ(life->problems, "") << when;
    if (day == 1) continue;
    if (day == 2) second = life->today;
    expect_near(life->today, second, share, when);
    const auto after = deeds(life->laptop);
    for (std::size_t i = 0; i < after.size(); ++i)
      EXPECT_GT(after[i], before[i]) << "a module does nothing any more: " << i << ", " << when;
  }
  return life;
}

TEST(Days, SixtyOfKeptConnections)
{
  const auto life = live({}, 60);
  EXPECT_GT(life->bulk.received(), std::uint64_t { 1 } << 32);
}

// They are forgotten after two minutes, and attached again without their handshake.
TEST(Days, TwentyWithConnectionsForgottenAsShipped)
{
  live({ .idle = 120s }, 20, 0.1); // one download a day alone is acted on, and may be declined once
}

TEST(Days, ClocksThatPartChangeNothing)
{
  for (const bool slow : { false, true })
  {
    Paths paths {};
    // As short as Wi-Fi's, or longer than any queue excuses: then nothing but probes and copies leaves there.
    paths.cell = slow ? ms(80) : paths.wifi;
    Counts steady {};
    for (const double ppm : { 0., 1., -1., 50., -50., 200., -200. })
    {
      Life life { { .ppm = ppm, .paths = paths } };
      Counts all {};
      for (int day = 0; day < 4; ++day)
      {
        life.day();
        all = life.laptop.counts;
      }
      if (ppm == 0) steady = all;
      EXPECT_EQ(life.problems, "") << ppm;
      RecordProperty((slow ? "slow " : "good ") + std::to_string(ppm), std::to_string(all.by_cell));
      if (slow)
      {
        EXPECT_LE(all.by_cell, steady.by_cell + steady.by_cell / 20) << ppm << " ppm";
      }
      expect_near(all, steady, 0.1, std::to_string(ppm) + " ppm"); // where ticks fall decides about single tries
    }
  }
}

// A run that cannot fail tells nothing: a module that acknowledges what is not there.
TEST(Days, WhatMustNotBeIsSeen)
{
  struct Ahead final : FlowModule<int>
  {
    std::string_view name() const override { return "ahead"; }
    std::string_view summary() const override { return "acknowledges too much"; }
    std::string_view manual() const override { return ""; }
    std::span<const Knob> knobs() const override { return {}; }
    void set(std::string_view, double) override {}
    double get(std::string_view) const override { return 0; }
    Interest interest() const override { return { .decide = traffic::egress_pure_ack }; }
    Plan decide(const Event& event, const FlowView&, int&) override
    {
      if (event.kind != EventKind::segment || !event.queued) return {};
      return { .edit = { .ack = event.segment->ack + 2896 }, .why = "ahead: planted" };
    }
    void describe(const FlowView&, const int&, Facts&) const override {}
  } ahead {};
  Life life { { .more = { &ahead } } };
  life.day();
  EXPECT_NE(life.problems, "");
}

} // namespace
} // namespace tandem::test::days
