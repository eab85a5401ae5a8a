// Whatever is lost, overtaken or sent again: what chain and mirror let leave keeps these promises.
#include "modules/freeze/freeze.h"
#include "modules/mirror/mirror.h"
#include "tests/golden/harness/fixture.h"
#include "tests/unit/random_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tandem::mirror
{
namespace
{

using namespace test;

// What a run saw, to be sure that the interesting states were reached at all.
struct Coverage
{
  std::uint64_t echoes = 0, exact = 0, chains = 0, dropped = 0, repairs = 0, waited = 0, windows = 0, duplicates = 0,
                ends = 0, kept = 0;
  std::uint64_t reordered = 0, late = 0, fills = 0, quiet = 0, off = 0, back_offs = 0, blocks = 0, held = 0;
};

class Ordeal
{
public:
  explicit Ordeal(std::uint64_t seed)
      : random_ { static_cast<std::uint32_t>(seed) }, loss_based_ { seed % 4 != 3 }, with_freeze_ { seed % 5 == 2 },
        fixture_ { with_freeze_ ? std::vector<Module*> { &freeze_, &module_ } : std::vector<Module*> { &module_ } },
        peers_ { peers_for(seed) }
  {
    slot_ = with_freeze_ ? 1 : 0;
    for (const auto& [knob, value] :
         std::initializer_list<std::pair<std::string_view, double>> { { "strategy", seed % 7 == 3 ? 1 + seed % 2 : 0 },
                                                                      { "threshold", seed % 4 == 0 ? 1 : 0.85 },
                                                                      { "cap", seed % 3 == 0 ? 0 : 0.5 },
                                                                      { "acks", seed % 3 == 1 ? 0 : 6 },
                                                                      { "pace", static_cast<double>(seed % 2) },
                                                                      { "give_up", 2 },
                                                                      { "back_off", 0.5 } })
      module_.set(knob, value);
    for (const auto& [knob, value] : std::initializer_list<std::pair<std::string_view, double>> {
             { "strategy", 1 }, { "bulk_bytes", 50'000 }, { "bulk_window", 4 }, { "withheld_share", 0.05 } })
      freeze_.set(knob, value);
    loss_ = std::array { 0.0005, 0.003, 0.02, 0.1 }[seed % 4];
    damage_.listening = seed % 3 != 2;
    fixture_.chain.damage(&damage_);
    fixture_.run_for(ms(1));
    fixture_.open(peers_);
    if (module_.get("strategy") != 0) fixture_.chain.content(peers_.key, Content::http, "");
    top_ = 1;
    told_ = acked_ = reported_ = peers_.remote_isn + 1;
    clean_ = peers_.recent;
  }

  void run(int steps)
  {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i)
      step();
  }

  // All that is still on its way arrives.
  void finish()
  {
    while (!due_.empty() && !::testing::Test::HasFatalFailure())
      deliver_due();
    quiet(ms(1000));
    EXPECT_EQ(peers_.received, top_) << "the model lost something itself";
    for (std::size_t i = 0; i < fixture_.chain.module_count(); ++i)
    {
      EXPECT_EQ(fixture_.chain.stats(i).excluded, 0u);
      for (std::size_t v = 0; v < chain::violation_count; ++v)
        EXPECT_EQ(fixture_.chain.stats(i).violations[v], 0u) << chain::name(static_cast<chain::Violation>(v)) << tail();
    }
    coverage.kept +=
        fixture_.count("mirror: kept, queue full") + fixture_.count("mirror: kept, no damaged frame heard");
    coverage.reordered += fixture_.count("mirror: reordered, not lost");
    coverage.chains += fixture_.count("mirror: goes on after what was hidden");
    coverage.late += fixture_.count("mirror: hidden, queue not full, repaired late");
    coverage.fills += fixture_.count("mirror: hole filled");
    coverage.back_offs += fixture_.count("mirror: kept, the sender does not respond");
    coverage.held += fixture_.count("freeze: ACK withheld");
  }

  Coverage coverage {};

private:
  struct Piece
  {
    std::uint32_t left = 0, right = 0;
  };
  // What is on its way again, or overtaken.
  struct Due
  {
    Piece piece {};
    TsClock value {};
    bool again = false; // a retransmission
  };

  static Peers peers_for(std::uint64_t seed)
  {
    Peers peers {};
    if (seed % 3 == 1) peers.remote_isn = Seq { 0u - 2'000'000u }; // wraps on the way
    if (seed % 4 == 1) peers.local_clock = TsClock { 0u - 3'000u };
    if (seed % 4 == 2) peers.remote_clock = TsClock { 0u - 3'000u };
    if (seed % 5 == 1) peers.key = key_v6();
    if (seed % 11 == 1) peers.timestamps = false;
    if (seed % 13 == 1) peers.local_scale = std::uint8_t { 14 }, peers.window = 40;
    if (seed % 2 == 0 && peers.local_scale == 7) peers.window = 6000;
    return peers;
  }

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }
  bool chance(double p) { return static_cast<double>(random_()) < p * 4294967295.0; }
  std::string tail() const
  {
    std::string text {};
    for (std::size_t i = log_.size() < 40 ? 0 : log_.size() - 40; i < log_.size(); ++i)
      text += "\n  " + log_[i];
    return text;
  }
  void log(const std::string& what)
  {
    log_.push_back(std::to_string(fixture_.now().time_since_epoch().count() / 1000) + " us " + what);
  }
  Seq seq(std::uint32_t number) const { return peers_.remote_isn + number; }
  TsClock sent_now() const { return peers_.remote_ts(fixture_.now() - queue_); }

  void step()
  {
    // Random losses are nobody's: what is made of them in the other runs may be any kind.
    if (flow::Flow* known = fixture_.chain.table().find(peers_.key); known != nullptr && loss_based_)
      known->view.sender.kind = SenderKind::loss_based;
    const std::uint32_t what = draw(10'000);
    if (what < 30)
      quiet(ms(draw(draw(20) == 0 ? 3000 : 300)));
    else if (what < 60)
      peers_.window = static_cast<std::uint16_t>(1 + draw(peers_.local_scale == 14 ? 60 : 8000)), acknowledge(0);
    else if (what < 80)
      peers_.next += 1 + draw(3000); // upload data, seen by nobody
    else if (what < 90)
      switch_module();
    else if (what < 110)
      ece_ = draw(20);
    else if (what < 2000)
      every_ = std::clamp<Duration>(every_ + Duration { static_cast<int>(draw(200'001)) - 100'000 }, ms(0.05), ms(3));
    // The queue breathes.
    queue_ = std::clamp<Duration>(queue_ + Duration { static_cast<int>(draw(1'000'001)) - 500'000 }, ms(0), ms(60));
    pass(every_);
    while (!due_.empty() && due_.begin()->first <= fixture_.now() && !::testing::Test::HasFatalFailure())
      deliver_due();
    if (::testing::Test::HasFatalFailure()) return;
    const Piece fresh { top_, top_ + 1448 * (1 + draw(draw(8) == 0 ? 8 : 2)) };
    top_ = fresh.right;
    if (chance(loss_))
      lose(fresh);
    else if (chance(0.005))
      due_.emplace(fixture_.now() + ms(0.5 + draw(60) * 0.1), Due { fresh, sent_now(), false });
    else
      deliver({ fresh, sent_now(), false });
  }

  void lose(const Piece& piece)
  {
    log("lost " + std::to_string(piece.left));
    if (draw(3) != 0) damage_.add(fixture_.now());
    // The first hole is repaired first.
    repair_at_ = std::max(repair_at_ + ms(0.1), fixture_.now() + ms(22 + draw(10)) + queue_);
    due_.emplace(repair_at_, Due { piece, {}, true });
  }

  void deliver_due()
  {
    auto first = due_.begin();
    Due one = first->second;
    const Tick at = first->first;
    due_.erase(first);
    if (at > fixture_.now()) pass(at - fixture_.now());
    if (::testing::Test::HasFatalFailure()) return;
    if (one.again)
    {
      one.value = sent_now();
      if (!again_known_) first_again_ = one.value, again_known_ = true;
      if (chance(0.05))
      {
        again_lost_ = true;
        due_.emplace(fixture_.now() + ms(30 + draw(300)), one);
        return;
      }
    }
    deliver(one);
    if (one.again || draw(3) != 0) return;
    // Sent again needlessly: when, no ACK shows.
    due_.emplace(fixture_.now() + ms(draw(20)), Due { one.piece, sent_now(), true });
    again_lost_ = true;
  }

  // The receiver, as RFC 9293, 2018, 2883 and 7323 want it.
  void deliver(const Due& one)
  {
    Segment s =
        peers_.data_in(fixture_.now(), one.piece.right - one.piece.left, peers_.local_ts(fixture_.now() - ms(20)));
    s.seq = seq(one.piece.left);
    if (s.timestamps) s.timestamps->value = one.value;
    log((one.again ? "again " : "in ") + std::to_string(one.piece.left) + " TSval "
        + std::to_string((one.value - peers_.remote_clock.raw).raw));
    fixture_.show(s);
    if (s.timestamps && seq(one.piece.left).at_or_before(acked_) && one.value.after(peers_.recent))
      peers_.recent = one.value;
    const auto known = [&](const Piece& p) { return p.left <= one.piece.left && one.piece.right <= p.right; };
    duplicate_ =
        one.piece.right <= peers_.received || std::any_of(held_.begin(), held_.end(), known) ? one.piece : Piece {};
    bool gap = !held_.empty();
    if (one.piece.left <= peers_.received)
      peers_.received = std::max(peers_.received, one.piece.right);
    else if (duplicate_.right == 0)
    {
      // The newest first.
      Piece merged = one.piece;
      std::erase_if(held_,
                    [&](const Piece& p)
                    {
                      if (p.right < merged.left || p.left > merged.right) return false;
                      merged = { std::min(p.left, merged.left), std::max(p.right, merged.right) };
                      return true;
                    });
      held_.insert(held_.begin(), merged);
      gap = true;
    }
    for (bool grown = true; grown;)
    {
      grown = false;
      std::erase_if(held_,
                    [&](const Piece& p)
                    {
                      if (p.left > peers_.received) return false;
                      grown = grown || p.right > peers_.received;
                      peers_.received = std::max(peers_.received, p.right);
                      return true;
                    });
    }
    // At once about holes and duplicates, unless ACKs are compressed; else every second segment.
    unsaid_ = true;
    if (gap || duplicate_.right != 0 ? draw(10) != 0 : draw(2) == 0) acknowledge(0);
  }

  void acknowledge(std::uint16_t flags)
  {
    Segment ack = peers_.ack(fixture_.now());
    if (ece_ > 0) ack.flags |= tcp_flag::ece, --ece_;
    ack.flags |= flags;
    const std::size_t room = peers_.timestamps ? 3 : 4;
    const auto add = [&](const Piece& p)
    {
      if (ack.sack_count < room) ack.sack_blocks[ack.sack_count++] = { seq(p.left), seq(p.right) };
      ack.options |= option::sack;
    };
    if (duplicate_.right != 0) add(duplicate_);
    duplicate_ = {};
    for (const Piece& p : held_)
      add(p);
    coverage.blocks += ack.sack_count;
    unsaid_ = false;
    acked_ = later(acked_, ack.ack);
    const bool clean = held_.empty();
    const chain::Outcome outcome = fixture_.show(ack).value_or(chain::Outcome {});
    note_injected();
    if (outcome.verdict == Verdict::drop)
    {
      ++coverage.dropped;
      ASSERT_EQ(ack.flags, tcp_flag::ack) << "an ACK that carries more was left out" << tail();
      for (const SackBlock& block : ack.sacks())
        ASSERT_TRUE(block.left.after(ack.ack) && block.right.at_or_before(reported_))
            << "what no ACK has reported was left out" << tail();
      coverage.repairs += ack.sack_count > 0;
    }
    else
    {
      for (const SackBlock& block : ack.sacks())
        reported_ = later(reported_, block.right);
      const Edit& edit = outcome.edit;
      log("ack " + std::to_string((ack.ack - peers_.remote_isn.raw).raw) + " blocks " + std::to_string(ack.sack_count)
          + ": " + std::string { outcome.why } + " echo "
          + std::to_string((peers_.recent - peers_.remote_clock.raw).raw)
          + (edit.ts_echo ? " now " + std::to_string((*edit.ts_echo - peers_.remote_clock.raw).raw) : ""));
      note(edit.ack.value_or(ack.ack), edit.window.value_or(ack.window));
      ASSERT_FALSE(edit.ts_value || edit.ecn || edit.route);
      ASSERT_TRUE(with_freeze_ || !edit.ack);
      if (edit.window) ++coverage.windows;
      if (edit.ts_echo) echo(*edit.ts_echo, ack);
    }
    if (!clean) return;
    // Nothing is missing: whatever comes is another episode. But a sender that was not told of the end of a chain goes
    // on with it, until it is told, or what was in flight then has come.
    if (outcome.why == "mirror: true echo, the old one would lengthen the timer"
        || outcome.why == "mirror: the end of a chain waits for new data"
        || outcome.why == "mirror: old echo beside a block of new data, the end of the chain")
      owing_until_ = fixture_.now() + ms(300);
    else if (outcome.verdict == Verdict::pass && outcome.edit.ts_echo)
      owing_until_ = {};
    if (ack.timestamps && fixture_.now() >= owing_until_) clean_ = ack.timestamps->echo;
    again_known_ = again_lost_ = false;
    // What the sender sends again of the last one, needlessly, would be the first of nothing.
    for (const auto& [when, one] : due_)
      again_lost_ = again_lost_ || one.again;
  }

  void echo(TsClock value, const Segment& ack)
  {
    ++coverage.echoes;
    ASSERT_TRUE(value.at_or_before(ack.timestamps->echo)) << "TSecr raised" << tail();
    if (with_freeze_) return; // may be acknowledged a little later
    ASSERT_TRUE(value.at_or_after(clean_ - 1)) << "far too old: it inflates the round trip time" << tail();
    if (!again_known_ || again_lost_) return;
    ++coverage.exact;
    ASSERT_TRUE(value.before(first_again_)) << "not older than the first retransmission" << tail();
  }

  // What the server hears.
  void note(Seq ack, std::uint16_t window)
  {
    ASSERT_TRUE(ack.at_or_before(acked_)) << "beyond received" << tail();
    ASSERT_LE(window, peers_.window) << "window raised" << tail();
    ASSERT_TRUE(peers_.window == 0 || window > 0) << "window closed" << tail();
    told_ = later(told_, ack);
  }

  void note_injected()
  {
    for (; noted_ < fixture_.actions.injected.size(); ++noted_)
    {
      const InjectedRecord& one = fixture_.actions.injected[noted_];
      log("injected: " + one.why);
      if (one.segment.kind != InjectedKind::ack) continue;
      note(one.segment.ack, one.segment.window);
      if (one.why == "mirror: the ACK that was waiting") ++coverage.waited;
      if (one.segment.sack_count == 0) continue;
      const SackBlock& block = one.segment.sack_blocks[0];
      if (block.left.after(one.segment.ack))
      {
        ++coverage.ends;
        ASSERT_TRUE(block.right.at_or_before(acked_)) << "a block of what is not here" << tail();
        ASSERT_TRUE(block.left.at_or_after(reported_)) << "nothing new, and the echo is a sample" << tail();
        reported_ = later(reported_, block.right);
        continue;
      }
      ++coverage.duplicates;
      ASSERT_FALSE(peers_.timestamps);
      ASSERT_TRUE(one.segment.sack_blocks[0].right.at_or_before(one.segment.ack)) << "more than a duplicate" << tail();
    }
    // Somebody fetches, sometimes.
    for (; answered_ < fixture_.actions.asked.size(); ++answered_)
    {
      const Asked one = fixture_.actions.asked[answered_];
      const bool ok = draw(2) == 0;
      fixture_.chain.fetched(
          one.flow, one.slot,
          { .how = one.fetch.how, .from = one.fetch.from, .to = one.fetch.to, .ok = ok, .why = "no" }, 2000,
          fixture_.now());
    }
  }

  void pass(Duration span)
  {
    fixture_.run_for(span);
    note_injected();
  }

  // Nothing arrives any more for a while.
  void quiet(Duration span)
  {
    if (unsaid_) acknowledge(0);
    const Tick end = fixture_.now() + span;
    pass(std::min<Duration>(span, ms(120)));
    if (!with_freeze_ && span >= ms(120) && !::testing::Test::HasFatalFailure())
    {
      ++coverage.quiet;
      ASSERT_EQ((told_ - peers_.remote_isn.raw).raw, (acked_ - peers_.remote_isn.raw).raw)
          << "the last ACK never left" << tail();
    }
    while (fixture_.now() < end && !::testing::Test::HasFatalFailure())
      pass(std::min<Duration>(end - fixture_.now(), ms(50)));
  }

  void switch_module()
  {
    if (on_)
    {
      if (unsaid_) acknowledge(0);
      fixture_.chain.enable(slot_, false, fixture_.now());
      note_injected();
      ++coverage.off;
      on_ = false;
      if (with_freeze_) return;
      ASSERT_EQ(fixture_.view(peers_).sent_ack, fixture_.view(peers_).rcv_nxt) << "withheld after the end" << tail();
      ASSERT_EQ(fixture_.view(peers_).sent_window, fixture_.view(peers_).last_window)
          << "narrow after the end" << tail();
      told_ = acked_;
    }
    fixture_.chain.enable(slot_, true, fixture_.now());
    on_ = true;
    // In the middle of an episode it cannot know when that began.
    again_lost_ = true;
  }

  std::vector<std::string> log_ {};
  std::mt19937 random_;
  bool loss_based_;
  bool with_freeze_;
  freeze::Freeze freeze_ {};
  Mirror module_ {};
  Fixture fixture_;
  Peers peers_;
  std::size_t slot_ = 0;
  DamageLog damage_ {};
  double loss_ = 0.01;
  Duration every_ = ms(0.5);
  Duration queue_ = ms(0);
  std::uint32_t ece_ = 0;
  bool on_ = true;
  // The server.
  std::uint32_t top_ = 1;
  std::multimap<Tick, Due> due_ {};
  Tick repair_at_ {};
  TsClock first_again_ {};
  bool again_known_ = false, again_lost_ = false; // since nothing was missing
  // The receiver.
  std::vector<Piece> held_ {}; // the newest first
  Piece duplicate_ {};
  bool unsaid_ = false;
  Seq acked_ {};
  TsClock clean_ {};    // echoed when nothing was missing
  Tick owing_until_ {}; // the end of a chain was not told
  // What left.
  Seq told_ {};
  Seq reported_ {}; // behind the highest byte that an ACK which left has reported by SACK
  std::size_t noted_ = 0, answered_ = 0;
};

TEST(MirrorProperties, HoldUnderRandomEvents)
{
  hold_under_random_events<Ordeal, Coverage>(240, 6000,
                                             {
                                                 { "echoes", &Coverage::echoes, 2'000 },
                                                 { "exact", &Coverage::exact, 1'000 },
                                                 { "chains", &Coverage::chains, 200 },
                                                 { "dropped", &Coverage::dropped, 1'000 },
                                                 { "repairs", &Coverage::repairs, 10 },
                                                 { "waited", &Coverage::waited, 50 },
                                                 { "windows", &Coverage::windows, 1'000 },
                                                 { "duplicates", &Coverage::duplicates, 50 },
                                                 { "ends", &Coverage::ends, 1 },
                                                 { "kept", &Coverage::kept, 500 },
                                                 { "reordered", &Coverage::reordered, 200 },
                                                 { "late", &Coverage::late, 50 },
                                                 { "fills", &Coverage::fills, 20 },
                                                 { "quiet", &Coverage::quiet, 500 },
                                                 { "off", &Coverage::off, 100 },
                                                 { "back offs", &Coverage::back_offs, 10 },
                                                 { "blocks", &Coverage::blocks, 10'000 },
                                                 { "held", &Coverage::held, 100 },
                                             });
}

} // namespace
} // namespace tandem::mirror
