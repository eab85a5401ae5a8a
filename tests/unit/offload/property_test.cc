// Whatever happens, in whatever order: what chain and offload let leave keeps these promises.
#include "tests/unit/offload/session.h"
#include "tests/unit/random_runs.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace tandem::offload
{
namespace
{

using namespace test;

// What a run saw, to be sure that the interesting states were reached at all.
struct Coverage
{
  std::uint64_t by_cell = 0, dropped = 0, by_timer = 0, silence = 0, link_lost = 0, validation_lost = 0, spoiled = 0;
  std::uint64_t switched_off = 0, on_word = 0, word_was_wrong = 0, by_both = 0;
};

class Ordeal
{
public:
  explicit Ordeal(std::uint64_t seed) : random_ { static_cast<std::uint32_t>(seed) }, s_ { peers_for(seed) }
  {
    s_.module.set("retry_first", 0.2);
    s_.module.set("goodput_loss_limit", 1);
    s_.every = ms(1);
  }

  void run(int steps)
  {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i)
    {
      event();
      settle();
    }
  }

  // Afterwards the server knows whatever the host last acknowledged, be the cellular path dead or not.
  void finish()
  {
    s_.wait(ms(3000));
    s_.server.echo(s_.fixture.now());
    settle();
    EXPECT_EQ(s_.server.acknowledged, s_.acked) << "an ACK was lost for good; the last that left:" << tail();
    EXPECT_EQ(s_.fixture.violations(), 0u);
    EXPECT_EQ(s_.fixture.chain.stats(0).excluded, 0u);
    for (std::size_t v = 0; v < chain::violation_count; ++v)
      EXPECT_EQ(s_.fixture.chain.stats(0).violations[v], 0u) << chain::name(static_cast<chain::Violation>(v));
    note();
  }

  Coverage coverage {};

private:
  void note()
  {
    const auto count = [&](std::string_view why) { return s_.fixture.count(why); };
    coverage.by_cell = count("offload: path validated");
    coverage.dropped = count("offload: repeated by the next ACK");
    coverage.by_timer = count("offload: timer sends what was left out");
    coverage.silence = count("offload: silence, back to Wi-Fi");
    coverage.link_lost = count("offload: cellular link lost");
    coverage.validation_lost = count("offload: path validation lost");
    coverage.spoiled = count("offload: probe spoiled by upload data");
    coverage.switched_off = count("offload: switched off");
    coverage.on_word = count("offload: path known from another flow");
    coverage.word_was_wrong = count("offload: no echo on a path known from another flow");
    coverage.by_both = count("offload: by cellular as well");
  }

  static Peers peers_for(std::uint64_t seed)
  {
    Peers peers {};
    if (seed % 3 == 1) peers.remote_isn = Seq { 0u - 2'000'000u }; // wraps on the way
    if (seed % 4 == 1) peers.local_clock = TsClock { 0u - 3'000u };
    if (seed % 5 == 1) peers.key = key_v6();
    return peers;
  }

  std::string tail() const
  {
    std::string text {};
    for (std::size_t i = s_.left.size() < 6 ? 0 : s_.left.size() - 6; i < s_.left.size(); ++i)
      text += "\n  " + std::to_string(s_.left[i].at.time_since_epoch().count() / 1000) + " us by "
              + std::string { name(s_.left[i].by) } + ", ack " + std::to_string(s_.left[i].ack.raw) + ", "
              + s_.left[i].why;
    return text;
  }

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }

  void event()
  {
    const std::uint32_t what = draw(1000);
    LinkState& cell = s_.fixture.links[static_cast<std::size_t>(Link::cell)];
    if (what < 830)
      arrival();
    else if (what < 900)
      s_.wait(ms(draw(30)));
    else if (what < 904)
      s_.wait(ms(100 + draw(500)));
    else if (what < 909)
      s_.peers.next += 1 + draw(2000); // upload data by Wi-Fi, seen by nobody
    else if (what < 914)
      s_.cell().delay = ms(2 + draw(30));
    else if (what < 917)
      s_.downlink(ms(10 + draw(60)));
    else if (what < 920)
      s_.cell().delivers = !s_.cell().delivers || draw(2) == 0;
    else if (what < 923)
    {
      cell.up = !cell.up;
      s_.fixture.chain.links(s_.fixture.links, s_.fixture.now());
      s_.note_injected();
    }
    else if (what < 960)
      s_.state().stretch = static_cast<std::uint16_t>(s_.phase() == Phase::by_cell ? 1 + draw(16) : 1);
    else if (what < 964)
    {
      s_.fixture.chain.enable(0, !s_.fixture.chain.enabled(0), s_.fixture.now());
      s_.note_injected();
    }
    else if (what < 966)
    {
      auto& known = s_.fixture.flow(s_.peers).view.cell_path_known;
      known = known ? std::nullopt : std::optional { ms(draw(30)) - ms(10) };
    }
    else if (what < 967)
      s_.wifi().delay = ms(2 + draw(60)); // until the medium is free
    else if (what < 980)
      s_.length = 500 + draw(6000);
    else if (what < 990)
      s_.every = Duration { 100'000 + draw(3'000'000) };
    else
      s_.peers.window = static_cast<std::uint16_t>(400 + draw(200));
    if (!cell.up && draw(20) == 0)
    {
      cell.up = true;
      s_.fixture.chain.links(s_.fixture.links, s_.fixture.now());
      s_.note_injected();
    }
    if (!s_.fixture.chain.enabled(0) && draw(20) == 0) s_.fixture.chain.enable(0, true, s_.fixture.now());
  }

  void arrival()
  {
    s_.wait(s_.every);
    s_.data();
    s_.note_injected();
    if (draw(6) == 0) return; // this one is acknowledged later
    Segment ack = s_.peers.ack(s_.fixture.now());
    bool loaded = false;
    if (draw(300) == 0)
    {
      report_hole(ack);
      loaded = true;
    }
    if (draw(60) == 0)
    {
      ack.flags |= tcp_flag::ece;
      loaded = true;
    }
    const FlowView& view = s_.fixture.view(s_.peers);
    const bool window_waited_for = view.sent_any && ack.window != view.sent_window && !may_be_left_out(ack, view);
    const chain::Outcome outcome = s_.ack(ack);
    if (outcome.verdict != Verdict::drop) return;
    ASSERT_FALSE(loaded || window_waited_for) << "an ACK that carries more was left out";
    owed_.push_back({ s_.fixture.now(), ack.ack, s_.fixture.view(s_.peers).rtt_smoothed });
  }

  // Checks what has left since the last look.
  void settle()
  {
    const Duration rtt = s_.fixture.view(s_.peers).rtt_smoothed;
    for (; checked_ < s_.left.size(); ++checked_)
    {
      const Left& one = s_.left[checked_];
      // By cellular less, lest a NAT that begins there draws an RST that TCP accepts.
      const Seq said = one.by == Link::cell ? one.ack + PathValidation::lag : one.ack;
      ASSERT_TRUE(said.at_or_before(s_.peers.remote_isn + s_.peers.received)) << "beyond received: " << one.why;
      ASSERT_TRUE(one.value.at_or_before(s_.peers.local_ts(one.at))) << "ahead of the kernel's clock: " << one.why;
      if (one.for_firewalls()) continue; // the server ignores it
      const auto way = static_cast<std::size_t>(one.by);
      ASSERT_TRUE(!seen_[way] || one.value.at_or_after(newest_[way]))
          << "TSval went back on " << name(one.by) << ": " << one.why;
      newest_[way] = one.value;
      seen_[way] = true;
      while (!owed_.empty() && said.at_or_after(owed_.front().ack))
      {
        const Owed& owed = owed_.front();
        ASSERT_LE(one.at - owed.at, std::max(owed.rtt, rtt) / 4 + ms(1)) << "held too long";
        owed_.pop_front();
      }
    }
    if (!owed_.empty())
    {
      ASSERT_LE(s_.fixture.now() - owed_.front().at, std::max(owed_.front().rtt, rtt) / 4 + ms(1))
          << "a dropped ACK has no successor";
    }
  }

  struct Owed
  {
    Tick at {};
    Seq ack {};
    Duration rtt {};
  };
  std::mt19937 random_;
  Session s_;
  std::deque<Owed> owed_ {};
  std::size_t checked_ = 0;
  std::array<TsClock, link_count> newest_ {};
  std::array<bool, link_count> seen_ {};
};

TEST(OffloadProperties, HoldUnderRandomEvents)
{
  hold_under_random_events<Ordeal, Coverage>(300, 4000,
                                             {
                                                 { "by cell", &Coverage::by_cell, 500 },
                                                 { "dropped", &Coverage::dropped, 10'000 },
                                                 { "by timer", &Coverage::by_timer, 100 },
                                                 { "silence", &Coverage::silence, 100 },
                                                 { "link lost", &Coverage::link_lost, 20 },
                                                 { "validation lost", &Coverage::validation_lost, 5 },
                                                 { "spoiled", &Coverage::spoiled, 10 },
                                                 { "switched off", &Coverage::switched_off, 10 },
                                                 { "on another flow's word", &Coverage::on_word, 100 },
                                                 { "a wrong word", &Coverage::word_was_wrong, 10 },
                                                 { "by both links", &Coverage::by_both, 100 },
                                             });
}

TEST(OffloadProperties, TheSameEventsGiveTheSamePlans)
{
  const auto trace = [](std::uint64_t seed)
  {
    Session s { {}, { .seed = seed } };
    s.cell().delay = ms(12);
    s.steps(3000);
    std::string all {};
    for (const Left& one : s.left)
      all += std::to_string(one.at.time_since_epoch().count()) + " " + std::string { name(one.by) } + " "
             + std::to_string(one.ack.raw) + " " + std::to_string(one.value.raw) + " " + one.why + "\n";
    return all;
  };
  EXPECT_EQ(trace(1), trace(1));
}

} // namespace
} // namespace tandem::offload
