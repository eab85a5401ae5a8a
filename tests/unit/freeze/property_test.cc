// Whatever happens, in whatever order: what chain and freeze let leave keeps these promises.
#include "modules/freeze/freeze.h"
#include "tests/golden/harness/fixture.h"
#include "tests/unit/random_runs.h"

#include <tandem/path_validation.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace tandem::freeze
{
namespace
{

using namespace test;

// What a run saw, to be sure that the interesting states were reached at all.
struct Coverage
{
  std::uint64_t held = 0, released = 0, resumes = 0, closed = 0, release_parts = 0, by_cell = 0, undone = 0,
                too_late = 0;
  std::uint64_t switched_off = 0, not_home = 0, resets = 0, with_sack = 0, real_closing = 0, parts = 0, forged = 0;
};

constexpr std::string_view released_part = "freeze: a part of the withheld ACK keeps the sender's timer from firing";
constexpr double closed_longest = 0.5; // s
constexpr double deadline = 3;         // s
// Timers, the round trip of a window reopening, and a margin.
constexpr Duration grace = ms(400);

// What left this host.
struct Left
{
  Link by = Link::wifi;
  Seq ack {};
  std::uint16_t window = 0;
  std::string why;
  bool on_purpose = false; // the window is held closed, or being opened bit by bit
};

class Ordeal
{
public:
  explicit Ordeal(std::uint64_t seed)
      : random_ { static_cast<std::uint32_t>(seed) }, fixture_ { { &module_ } }, peers_ { peers_for(seed) }
  {
    const auto strategy = static_cast<double>(seed % 6);
    for (const auto& [knob, value] : std::initializer_list<std::pair<std::string_view, double>> {
             { "strategy", strategy },
             { "bulk_bytes", 50'000 },
             { "bulk_window", 4 },
             { "withheld_share", 0.05 },
             { "withheld_queue", 1 },
             { "closed_longest", closed_longest },
             { "closed_back_off", 0.2 },
             { "deadline", deadline },
             { "validate_path", static_cast<double>(seed % 4 == 0) },
             { "release_parts", 4 },
             { "resumes", 4 } })
      module_.set(knob, value);
    full_ = static_cast<std::uint32_t>(peers_.window) << 7;
    prove_ = module_.get("validate_path") != 0;
    fixture_.run_for(ms(1));
    fixture_.open(peers_);
    local_edge_ = peers_.remote_isn + 1 + (static_cast<std::uint32_t>(peers_.window) << 7);
    best_edge_ = local_edge_;
    told_ = acked_ = peers_.remote_isn + 1;
    told_window_ = peers_.window;
  }

  void run(int steps)
  {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i)
      event();
  }

  // Whatever was going on: once the links are well and nothing more arrives, the server knows all.
  void finish()
  {
    fixture_.links = both_links();
    link_event();
    address(true);
    fill();
    if (!off_) acknowledge(0);
    wait(Duration { static_cast<std::int64_t>(1e9 * (closed_longest + deadline)) });
    EXPECT_EQ(told_, acked_) << "withheld for good" << tail();
    EXPECT_EQ(told_window_, peers_.window) << "left with a closed window" << tail();
    EXPECT_EQ(fixture_.chain.stats(0).excluded, 0u);
    for (std::size_t v = 0; v < chain::violation_count; ++v)
      EXPECT_EQ(fixture_.chain.stats(0).violations[v], 0u) << chain::name(static_cast<chain::Violation>(v));
    // A reset ends it.
    if (random_() % 2 == 0)
    {
      fixture_.show(peers_.bare(random_() % 2 == 0 ? Direction::ingress : Direction::egress,
                                tcp_flag::rst | tcp_flag::ack, fixture_.now()));
      ++coverage.resets;
      fixture_.links[0].up = false;
      fixture_.chain.links(fixture_.links, fixture_.now());
      fixture_.run_for(ms(300));
      fixture_.links[0].up = true;
      fixture_.chain.links(fixture_.links, fixture_.now());
      fixture_.run_for(ms(5000));
      EXPECT_EQ(fixture_.actions.injected.size(), noted_)
          << "sent after a reset: " << fixture_.actions.injected.back().why;
    }
    const auto count = [&](std::string_view why) { return fixture_.count(why); };
    coverage.held += count("freeze: ACK withheld");
    coverage.released += count("freeze: withheld ACK released, the flow pauses");
    coverage.resumes += count("freeze: resume ACK") + count("freeze: resume ACK, window reopens");
    coverage.closed += count("freeze: window closed, blackout predicted");
    coverage.parts += count(released_part);
    coverage.release_parts += count("freeze: paced release by cellular");
    coverage.by_cell += count("freeze: window closed by cellular");
    coverage.undone += count("freeze: undo at the recovery point");
    coverage.too_late += count("freeze: blackout too long, left to TCP");
    const std::uint64_t reopenings =
        count("freeze: no blackout came, window reopens") + count("freeze: warning withdrawn, window reopens");
    EXPECT_LE(count("freeze: undo at the recovery point"), episodes_ + reopenings);
  }

  Coverage coverage {};

private:
  static constexpr double most = 1.0 / 3;

  static Peers peers_for(std::uint64_t seed)
  {
    Peers peers {};
    if (seed % 3 == 1) peers.remote_isn = Seq { 0u - 2'000'000u }; // wraps on the way
    if (seed % 4 == 1) peers.local_clock = TsClock { 0u - 3'000u };
    if (seed % 4 == 2) peers.remote_clock = TsClock { 0u - 3'000u };
    if (seed % 5 == 1) peers.key = key_v6();
    if (seed % 2 == 0) peers.window = 2000;
    if (seed % 13 == 1) peers.timestamps = false;
    if (seed % 17 == 1) peers.sack = false;
    return peers;
  }

  // The last events, for a failure.
  std::string tail() const
  {
    std::string text {};
    for (std::size_t i = log_.size() < 12 ? 0 : log_.size() - 12; i < log_.size(); ++i)
      text += "\n  " + log_[i];
    return text;
  }
  void log(const std::string& what)
  {
    log_.push_back(std::to_string(fixture_.now().time_since_epoch().count() / 1000) + " us " + what);
  }

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }
  LinkState& wifi() { return fixture_.links[0]; }
  const FlowView& view() { return fixture_.view(peers_); }
  const BlackoutState& state()
  {
    static const BlackoutState none {};
    if ((fixture_.flow(peers_).begun & 1u) == 0) return none; // switched off, or nothing came since
    return std::visit([](const auto& one) -> const BlackoutState& { return one; },
                      Freeze::state_of(std::as_const(fixture_.chain).state(fixture_.flow(peers_), 0)));
  }
  // Whether the window is, or has just been, closed on purpose.
  bool on_purpose() { return !off_ && (state().window_closed || state().reopening || state().phase == Phase::closed); }

  void event()
  {
    const std::uint32_t what = draw(10'000);
    if (what < 8'800)
      arrival();
    else if (what < 9'000)
      wait(ms(draw(40)));
    else if (what < 9'030)
      wait(ms(100 + draw(1500)));
    else if (what < 9'040)
      blackout(false);
    else if (what < 9'050)
      wifi().at_risk = !wifi().at_risk, link_event();
    else if (what < 9'054)
      blackout(true);
    else if (what < 9'058)
      fixture_.links[1].up = !fixture_.links[1].up, link_event();
    else if (what < 9'062)
      address(!home_);
    else if (what < 9'066)
      switch_module();
    else if (what < 9'200)
      every_ = Duration { 100'000 + draw(2'000'000) };
    else if (what < 9'300)
      length_ = 1 + draw(6'000);
    else if (what < 9'350)
      rtt_ = ms(5 + draw(60));
    else if (what < 9'450)
      reading_ = draw(3) != 0;
    else if (what < 9'500)
    {
      window_update();
    }
    else if (what < 9'560)
      hole(1 + draw(8));
    else if (what < 9'600)
      peers_.next += 1 + draw(2000); // upload data by Wi-Fi, seen by nobody
    else if (what < 9'610)
      forged_reset();
    if (!home_ && draw(30) == 0) address(true);
    if (off_ && draw(30) == 0) switch_module();
    if (!wifi().at_risk) return;
    if (draw(100) == 0) wifi().at_risk = false, link_event();
  }

  // Within the window, and not what the local TCP waits for: it answers, sometimes after all else.
  void forged_reset()
  {
    Segment reset = peers_.bare(Direction::ingress, tcp_flag::rst, fixture_.now());
    reset.seq = reset.seq + 1 + draw(1'000);
    fixture_.show(reset);
    over_ = true;
    ++episodes_; // a window that is reopened unsaid
    ++coverage.forged;
    log("forged reset");
    if (draw(2) == 0) wifi().at_risk = !wifi().at_risk, link_event();
    if (draw(4) == 0) wifi().up = false, link_event();
    wait(ms(draw(1'500)));
    if (!wifi().up) wifi().up = true, ++episodes_, link_event();
    acknowledge(0);
  }

  // The link is gone for a while. What was in flight is lost: a hole, sometimes.
  void blackout(bool predicted)
  {
    if (predicted)
    {
      wifi().at_risk = true;
      link_event();
      for (int i = static_cast<int>(draw(30)); i > 0; --i)
        arrival();
      wait(ms(draw(700)));
    }
    acknowledge(0); // what the local TCP itself says into the dead link is lost without freeze, too
    wifi().up = false;
    link_event();
    wait(ms(draw(10) == 0 ? 4'500 : 50 + draw(2'000)));
    if (draw(4) == 0) window_update(); // into the dead link
    if (draw(6) == 0)
    {
      // Back for a moment.
      wifi().up = true;
      ++episodes_;
      link_event();
      wait(ms(draw(15)));
      wifi().up = false;
      link_event();
      wait(ms(draw(1'000)));
    }
    wifi().up = true;
    wifi().at_risk = false;
    ++episodes_;
    link_event();
    wait(draw(3) == 0 ? ms(1'500) : rtt_); // the server may have nothing more to say
    if (draw(3) != 0) hole(1 + draw(8));
  }

  void link_event()
  {
    log(std::string { "wifi " } + (wifi().up ? "up" : "down") + (wifi().at_risk ? ", at risk" : "") + ", cell "
        + (fixture_.links[1].up ? "up" : "down"));
    wifi_since_ = fixture_.now();
    fixture_.chain.links(fixture_.links, fixture_.now());
    note_injected();
  }

  void address(bool home)
  {
    if (home != home_) ++coverage.not_home;
    if (home && !home_) ++episodes_;
    log(home ? "address is back" : "address is lost");
    home_ = home;
    wifi_since_ = fixture_.now();
    fixture_.chain.links(fixture_.links, fixture_.now(),
                         [home](const Address&) { return home ? Link::wifi : Link::other; });
    note_injected();
  }

  void switch_module()
  {
    if (!off_ && home_)
    {
      fixture_.chain.enable(0, false, fixture_.now());
      note_injected();
      off_ = true;
      ++coverage.switched_off;
      ASSERT_EQ(view().sent_ack, view().rcv_nxt) << "withheld after the end";
      ASSERT_EQ(view().sent_window, view().last_window) << "closed after the end";
    }
    else if (off_)
    {
      fixture_.chain.enable(0, true, fixture_.now());
      off_ = false;
      best_edge_ = told_; // nobody looked
    }
  }

  void arrival()
  {
    if (!wifi().up || !home_) return wait(ms(5));
    wait(every_);
    const std::uint32_t room = static_cast<std::uint32_t>(local_edge_ - (peers_.remote_isn + peers_.received));
    const std::uint32_t length = std::min(length_, room);
    if (length == 0 || closed(told_window_)) return read_on();
    if (beyond_ == 0)
      fixture_.data(peers_, length, peers_.local_ts(fixture_.now() - rtt_));
    else
    {
      Segment late = peers_.data_in(fixture_.now(), length, peers_.local_ts(fixture_.now() - rtt_));
      late.seq = peers_.remote_isn + beyond_;
      fixture_.show(late);
      beyond_ += length;
      // What lies beyond the hole fits into the window, too.
      if ((peers_.remote_isn + beyond_).after(local_edge_)) beyond_ -= length;
      if (draw(6) == 0) fill();
    }
    note_injected();
    if (draw(5) == 0 && beyond_ == 0) return; // this one is acknowledged later
    if (draw(50) == 0) return acknowledge(tcp_flag::ece);
    acknowledge(0);
  }

  void hole(std::uint32_t segments)
  {
    if (!peers_.sack || beyond_ != 0) return;
    const std::uint32_t left = peers_.received + segments * 1448;
    if ((peers_.remote_isn + left + 1448).after(local_edge_) || !wifi().up || !home_) return;
    hole_ = left;
    beyond_ = left + 1448;
    acknowledge(0);
  }
  void fill()
  {
    if (beyond_ == 0) return;
    peers_.recent = peers_.remote_ts(fixture_.now());
    peers_.received = beyond_;
    beyond_ = 0;
  }

  void read_on()
  {
    reading_ = true;
    window_update();
  }

  // The local TCP never takes back what it offered (RFC 9293 3.8.6), as far as its unit of 128 bytes lets it.
  void window_now()
  {
    const Seq received = peers_.remote_isn + peers_.received;
    if (reading_) local_edge_ = later(local_edge_, received + full_);
    const auto open = static_cast<std::uint32_t>(local_edge_ - received);
    peers_.window = static_cast<std::uint16_t>(open >> 7);
    if (peers_.window == 0) ++coverage.real_closing;
  }

  void window_update()
  {
    if (draw(2) == 0) acknowledge(0);
  }

  void acknowledge(std::uint16_t flags)
  {
    window_now();
    Segment ack = peers_.ack(fixture_.now());
    ack.flags |= flags;
    if (beyond_ != 0)
    {
      ack.sack_count = 1;
      ack.sack_blocks[0] = { peers_.remote_isn + hole_, peers_.remote_isn + beyond_ };
      ack.options |= option::sack;
      ++coverage.with_sack;
    }
    const std::optional<chain::Outcome> outcome = fixture_.show(ack);
    if (std::exchange(over_, false)) wifi_since_ = fixture_.now();
    acked_ = later(acked_, ack.ack);
    note_injected();
    if (!outcome) return note({ Link::wifi, ack.ack, ack.window, "not looked at", false });
    if (outcome->verdict == Verdict::drop)
    {
      ASSERT_TRUE(ack.sack_count == 0 && flags == 0) << "an ACK that carries more was left out";
      return;
    }
    const Edit& edit = outcome->edit;
    ASSERT_TRUE(ack.sack_count == 0 || !edit.ack) << "lowered below its SACK blocks: " << outcome->why;
    ASSERT_FALSE(edit.ecn || edit.route);
    ASSERT_TRUE(!edit.ts_value || prove_);
    ASSERT_TRUE(home_ || edit.empty()) << "touched without an address";
    note({ edit.route.value_or(Link::wifi), edit.ack.value_or(ack.ack), edit.window.value_or(ack.window),
           std::string { outcome->why }, on_purpose() });
  }

  void wait(Duration span)
  {
    const Tick end = fixture_.now() + span;
    while (fixture_.now() < end && !::testing::Test::HasFatalFailure())
    {
      fixture_.run_for(std::min<Duration>(ms(20), end - fixture_.now()));
      note_injected();
      settle();
    }
  }

  void note_injected()
  {
    for (; noted_ < fixture_.actions.injected.size(); ++noted_)
    {
      const InjectedRecord& one = fixture_.actions.injected[noted_];
      ASSERT_TRUE(home_) << "sent without an address: " << one.why;
      if (one.why == "chain: for firewalls on the way of the data")
      {
        // The server has it and ignores it (decision 0042), so that its window is of no account.
        ASSERT_TRUE(one.segment.by == Link::wifi && one.segment.ack.before(told_)) << tail();
        continue;
      }
      ASSERT_NE(one.why, "chain: ACK that a module withheld") << "the chain had to flush" << tail();
      // What leaves ahead of a hole keeps the window as small as the module wants it.
      const bool held_closed = one.why == "chain: withheld ACK ahead of a hole" && on_purpose();
      const bool on_purpose = held_closed || one.why.find("window reopens") != one.why.npos
                              || one.why.find("window closed") != one.why.npos;
      if (one.why == released_part)
      {
        ASSERT_TRUE(one.segment.ack.before(view().rcv_nxt))
            << "the last of what was withheld was acknowledged" << tail();
        ASSERT_TRUE(closed(one.segment.window)) << "a part that opens the window" << tail();
      }
      if (one.segment.kind == InjectedKind::ack)
        note({ one.segment.by, one.segment.ack, one.segment.window, one.why, on_purpose });
    }
  }

  // Checks what leaves and lets the server hear it.
  void note(const Left& one)
  {
    log(std::string { name(one.by) } + " ack " + std::to_string((one.ack - peers_.remote_isn.raw).raw) + " win "
        + std::to_string(one.window) + ": " + one.why);
    ASSERT_TRUE(one.ack.at_or_before(peers_.remote_isn + peers_.received)) << "beyond received: " << one.why;
    const Seq edge = one.ack + (static_cast<std::uint32_t>(one.window) << 7);
    // Ahead of a hole leaves what the ACK before said, with the window that it had.
    if (one.why == "chain: withheld ACK ahead of a hole")
      ASSERT_TRUE(edge.at_or_before(local_edge_)) << "window raised: " << one.why;
    else
      ASSERT_LE(one.window, peers_.window) << "window raised: " << one.why;
    // 127: what the unit of the window cuts off; 2: what the copies of a validation acknowledge less.
    if (!one.on_purpose && !off_ && !closed(one.window))
    {
      ASSERT_TRUE((edge + 129).at_or_after(best_edge_)) << "offered edge moved back by " << best_edge_ - edge << tail();
      best_edge_ = later(best_edge_, edge);
    }
    if (!off_ && home_)
    {
      largest_window_ = std::max<double>(largest_window_, view().window_estimate);
      const std::int32_t held = view().rcv_nxt - view().sent_ack;
      ASSERT_LE(held, std::max(most * largest_window_, 2.0 * view().mss)) << "more than may be withheld" << tail();
    }
    const bool heard = fixture_.links[static_cast<std::size_t>(one.by)].up && home_;
    if (!heard || one.ack.before(told_)) return;
    told_ = one.ack;
    told_window_ = one.window;
    if (closed(one.window) && !closed(peers_.window))
      closed_since_ = closed_since_ == Tick::max() ? fixture_.now() : closed_since_;
    else
      closed_since_ = Tick::max();
  }

  // No segment fits.
  static bool closed(std::uint16_t window) { return (window << 7) < 1448; }

  // What time brings.
  void settle()
  {
    if (off_ || !home_ || over_) return;
    const Duration longest = Duration { static_cast<std::int64_t>(1e9 * closed_longest) } + grace;
    if (wifi().up && closed_since_ != Tick::max())
    {
      ASSERT_LE(fixture_.now() - std::max(closed_since_, wifi_since_), longest)
          << "window closed for too long" << tail();
    }
    // Whom nothing new can be told by cellular, where two bytes are left out, its own timer asks.
    if (!wifi().up && fixture_.links[1].up && closed_since_ != Tick::max()
        && told_.before(acked_ - PathValidation::lag))
    {
      ASSERT_LE(fixture_.now() - std::max(closed_since_, wifi_since_),
                Duration { static_cast<std::int64_t>(1e9 * deadline) } + grace)
          << "window closed beyond the deadline" << tail();
    }
    if (wifi().up && fixture_.now() - std::max(state().progress_at, wifi_since_) > longest)
    {
      ASSERT_EQ(told_, acked_) << "withheld for too long" << tail();
    }
  }

  std::vector<std::string> log_ {};
  std::mt19937 random_;
  Freeze module_ {};
  Fixture fixture_;
  Peers peers_;
  Duration every_ = ms(1);
  Duration rtt_ = ms(20);
  std::uint32_t length_ = 2896;
  bool reading_ = true;    // the application
  std::uint32_t full_ = 0; // receive window, bytes
  bool prove_ = false;
  bool off_ = false, home_ = true;
  bool over_ = false;                   // as a reset says that the local TCP has not taken
  std::uint32_t hole_ = 0, beyond_ = 0; // relative: begin and end of what arrived behind a hole
  std::uint64_t episodes_ = 0;
  std::size_t noted_ = 0;
  double largest_window_ = 0;
  Seq acked_ {};      // by the local TCP
  Seq local_edge_ {}; // offered by the local TCP
  Seq best_edge_ {};  // by what left
  Tick wifi_since_ {};
  // What the server heard.
  Seq told_ {};
  std::uint16_t told_window_ = 0;
  Tick closed_since_ = Tick::max();
};

TEST(FreezeProperties, HoldUnderRandomEvents)
{
  hold_under_random_events<Ordeal, Coverage>(480, 4000,
                                             {
                                                 { "held", &Coverage::held, 10'000 },
                                                 { "released", &Coverage::released, 500 },
                                                 { "resumes", &Coverage::resumes, 500 },
                                                 { "closed", &Coverage::closed, 100 },
                                                 { "parts", &Coverage::parts, 50 },
                                                 { "release parts", &Coverage::release_parts, 20 },
                                                 { "by cell", &Coverage::by_cell, 50 },
                                                 { "undone", &Coverage::undone, 30 },
                                                 { "too late", &Coverage::too_late, 50 },
                                                 { "not home", &Coverage::not_home, 100 },
                                                 { "switched off", &Coverage::switched_off, 100 },
                                                 { "resets", &Coverage::resets, 50 },
                                                 { "with sack", &Coverage::with_sack, 1'000 },
                                                 { "real closing", &Coverage::real_closing, 100 },
                                                 { "forged", &Coverage::forged, 1'000 },
                                             });
}

// RFC 5961 3.2: the local TCP answers a reset within its window that is not the very number it waits for, and goes on.
// That answer is read before the copy of the reset.
TEST(FreezeProperties, AWindowIsOpenedAgainThoughAResetCameThatTcpDoesNotTake)
{
  for (const bool withdrawn : { false, true })
  {
    Freeze module {};
    for (const auto& [knob, value] : std::initializer_list<std::pair<std::string_view, double>> {
             { "strategy", 4 }, { "bulk_bytes", 50'000 }, { "bulk_window", 4 }, { "closed_longest", closed_longest } })
      module.set(knob, value);
    Fixture fixture { { &module } };
    Peers peers {};
    fixture.run_for(ms(1));
    fixture.open(peers);
    fixture.download(peers, 100, ms(1), ms(20));
    fixture.links[0].at_risk = true;
    fixture.chain.links(fixture.links, fixture.now());
    ASSERT_EQ(fixture.view(peers).sent_window, 0);
    fixture.run_for(ms(100));
    fixture.ack(peers);
    Segment reset = peers.bare(Direction::ingress, tcp_flag::rst, fixture.now());
    reset.seq = reset.seq + 1000;
    fixture.show(reset);
    const std::size_t sent = fixture.actions.injected.size();
    if (withdrawn)
    {
      fixture.links[0].at_risk = false;
      fixture.chain.links(fixture.links, fixture.now());
    }
    fixture.run_for(ms(1'000));
    EXPECT_EQ(fixture.actions.injected.size(), sent) << "it may have been one that TCP takes";
    fixture.ack(peers); // of a window probe
    fixture.run_for(ms(200));
    EXPECT_EQ(fixture.view(peers).sent_window, peers.window) << withdrawn;
  }
}

// Likewise one that came when the link was back, but not yet known to be.
TEST(FreezeProperties, ABlackoutEndsThoughAResetCameThatTcpDoesNotTake)
{
  Freeze module {};
  for (const auto& [knob, value] : std::initializer_list<std::pair<std::string_view, double>> {
           { "strategy", 1 }, { "bulk_bytes", 50'000 }, { "bulk_window", 4 }, { "withheld_share", 0.1 } })
    module.set(knob, value);
  Fixture fixture { { &module } };
  Peers peers {};
  fixture.run_for(ms(1));
  fixture.open(peers);
  ASSERT_GT(fixture.download(peers, 100, ms(1), ms(20)), 0);
  const auto link = [&](bool up)
  {
    fixture.links[0].up = up;
    fixture.chain.links(fixture.links, fixture.now());
  };
  link(false);
  fixture.run_for(ms(1'000));
  Segment reset = peers.bare(Direction::ingress, tcp_flag::rst, fixture.now());
  reset.seq = reset.seq + 1000;
  fixture.show(reset);
  link(true);
  fixture.run_for(ms(100));
  fixture.ack(peers);
  EXPECT_GT(fixture.download(peers, 2'000, ms(1), ms(20)), 0) << "nothing is withheld any more";
}

} // namespace
} // namespace tandem::freeze
