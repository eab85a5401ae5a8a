#include "tests/unit/together/world.h"

#include "src/chain/release.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::test
{

Plan Strict::decide(const Event& event, const FlowView& flow, int&)
{
  if (event.kind == EventKind::switched_off) window = 0xffff, withheld = 0;
  if (event.kind != EventKind::segment || !event.queued || !event.segment->is_pure_ack()) return {};
  const Segment& segment = *event.segment;
  window = 0xffff;
  withheld = 0;
  Plan plan { .why = "strict: looks" };
  if (!active) return plan;
  if (random_() % 3 == 0) plan.edit.window = window = static_cast<std::uint16_t>(random_() % (segment.window + 1u));
  // Only what is new may be withheld, and no hole is shown to the server above it.
  if (random_() % 3 == 0 && segment.sack_count == 0 && segment.ack.after(flow.sent_ack))
  {
    withheld =
        std::min<std::uint32_t>(1448 * (1 + random_() % 4), static_cast<std::uint32_t>(segment.ack - flow.sent_ack));
    plan.edit.ack = segment.ack - withheld;
  }
  return plan;
}

World::World(std::uint32_t seed)
    : random_ { seed }, strict_ { seed + 1 }, fixture_ { { &freeze_, &mirror_, &offload_, &ecn_, &rate_, &strict_ } }
{
  strict_.active = seed % 4 == 0;
  filtered_ = seed % 2 == 0;
  server_.paths[static_cast<std::size_t>(Link::cell)].delivers = !filtered_;
  server_.paths[static_cast<std::size_t>(Link::cell)].delay = ms(4 + draw(30));
  server_.paws_window = seed % 5 == 0 ? 0 : 1;
  if (seed % 3 == 1) peers_.remote_isn = Seq { 0u - 2'000'000u }; // wraps on the way
  if (seed % 7 == 1) peers_.local_clock = TsClock { 0u - 3'000u };
  if (seed % 5 == 1) peers_.key = key_v6();
  if (seed % 11 == 1) peers_.local_scale = std::uint8_t { 14 };
  if (seed % 11 == 2)
  {
    peers_.local_scale = peers_.remote_scale = std::nullopt;
    peers_.window = 64'000;
  }
  offload_.set("retry_first", 0.2);
  offload_.set("window_mss", 4);
  // Every second run validates the cellular path for freeze too.
  if (seed % 2 == 1) freeze_.set("strategy", 2);
  damage_.listening = seed % 3 != 2;
  fixture_.chain.damage(&damage_);
  pass(ms(1));
  fixture_.open(peers_);
  // Another flow's word, right or wrong.
  if (seed % 3 != 0) fixture_.flow(peers_).view.cell_path_known = Duration {};
  sent_ack_ = sacked_ = own_ack_ = fixture_.view(peers_).sent_ack;
  sent_value_ = fixture_.view(peers_).sent_ts_value;
  sent_window_ = fixture_.view(peers_).sent_window;
  server_.send(fixture_.now(), Link::wifi, sent_ack_, sent_value_);
}

std::string World::tail() const
{
  std::string text {};
  for (std::size_t i = log_.size() < 30 ? 0 : log_.size() - 30; i < log_.size(); ++i)
    text += "\n  " + log_[i];
  return text;
}

void World::run(int steps)
{
  for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i)
    step();
}

void World::step()
{
  event(draw(10'000));
  pass(ms(0.2 + draw(14) * 0.1));
  if (::testing::Test::HasFatalFailure() || !up_ || !home_) return;
  uploads_arrive();
  if (!holes_.empty() && holes_.front().first <= fixture_.now())
    repair();
  else
    arrival();
}

void World::event(std::uint32_t what)
{
  if (what < 25)
    upload();
  else if (what < 45)
    pass(ms(draw(400)));
  else if (what < 60)
    change_link(false, false);
  else if (what < 75)
    change_link(true, true);
  else if (what < 90 || (!up_ && what < 1500))
    change_link(true, false);
  else if (what < 100)
  {
    const std::size_t i = draw(static_cast<std::uint32_t>(fixture_.chain.module_count()));
    note();
    fixture_.chain.enable(i, false, fixture_.now());
    if (i + 1 == fixture_.chain.module_count()) strict_.window = 0xffff, strict_.withheld = 0; // told or not
    check_injected();
    fixture_.chain.enable(i, true, fixture_.now());
  }
  else if (what < 130)
  {
    // Nobody knows of one that was not told.
    const auto window = static_cast<std::uint16_t>(peers_.local_scale ? 4000 + draw(3000) : 50'000 + draw(14'000));
    if (!up_ || !home_ || !queue_) return;
    peers_.window = window;
    acknowledge();
  }
  else if (what < 150)
    change_signal();
  else if (what < 155)
    change_address(false);
  else if (what < 175)
    change_queue(!queue_);
  else if (!queue_ && what < 1500)
    change_queue(true);
  else if (what < 220 && up_ && home_)
    acknowledge(0, draw(2)); // a keep-alive, or the answer to one
  else if (!home_ && what < 1500)
    change_address(true);
}

// Whether packets wait for a verdict: no module had need of any.
void World::change_queue(bool on)
{
  coverage.bypassed += queue_ && !on ? 1 : 0;
  if (on != queue_) on ? fixture_.chain.queue_resumed() : fixture_.chain.queue_bypassed();
  resumed_ = on && !queue_;
  queue_ = on;
}

void World::change_signal()
{
  std::optional<RadioState>& radio = fixture_.links[static_cast<std::size_t>(Link::wifi)].radio;
  radio = RadioState { .signal = -90.F + static_cast<float>(draw(40)) };
  note();
  fixture_.chain.radio(Link::wifi, radio, fixture_.now());
  check_injected();
}

void World::change_link(bool up, bool at_risk)
{
  up_ = up;
  LinkState& wifi = fixture_.links[static_cast<std::size_t>(Link::wifi)];
  if (wifi.up != up) wifi.changed = fixture_.now();
  wifi.up = up;
  wifi.at_risk = at_risk;
  server_.paths[static_cast<std::size_t>(Link::wifi)].delivers = up;
  note();
  fixture_.chain.links(fixture_.links, fixture_.now());
  check_injected();
}

// Lost and had again, as by a new lease.
void World::change_address(bool home)
{
  coverage.away += home_ && !home ? 1 : 0;
  home_ = home;
  note();
  fixture_.chain.links(fixture_.links, fixture_.now(),
                       [home](const Address&) { return home ? Link::wifi : Link::other; });
  check_injected();
}

void World::pass(Duration span)
{
  // In small steps, so that what alarms inject is looked at with the reservation of its time.
  const Tick end = fixture_.now() + span;
  while (fixture_.now() < end)
  {
    if (fixture_.chain.table().find(peers_.key) != nullptr) note();
    fixture_.run(std::min(end, fixture_.now() + ms(1)));
    check_injected();
  }
}

// Data of this host by Wi-Fi, with the kernel's own TSval. No rule shows it to anybody.
void World::upload()
{
  peers_.next += 1 + draw(2000);
  uploads_.push_back({ fixture_.now(), peers_.local_ts(fixture_.now()), peers_.next, draw(4) == 0,
                       peers_.remote_isn + peers_.received });
  coverage.lost_uploads += uploads_.back().lost ? 1 : 0;
}

void World::uploads_arrive()
{
  while (!uploads_.empty() && uploads_.front().sent + ms(10) <= fixture_.now())
  {
    Upload& one = uploads_.front();
    if (!one.lost)
    {
      server_.send(one.sent, Link::wifi, one.ack, one.value);
      server_has_ = one.end;
      uploads_.pop_front();
      continue;
    }
    // Sent once more by the retransmission timer, with the TSval of that time.
    if (one.sent + ms(250) > fixture_.now()) return;
    one = { fixture_.now(), peers_.local_ts(fixture_.now()), one.end, false, peers_.remote_isn + peers_.received };
  }
}

Segment World::data(const Piece& piece)
{
  Segment s = peers_.data_in(fixture_.now(), piece.right - piece.left, server_.echo(fixture_.now() - peers_.downlink));
  s.seq = peers_.remote_isn + piece.left;
  s.ack = peers_.local_isn + server_has_;
  return s;
}

void World::arrival()
{
  const Piece fresh { top_, top_ + 1448 * (1 + draw(2)) };
  top_ = fresh.right;
  if (draw(500) == 0 && holes_.size() < 2)
  {
    holes_.emplace_back(fixture_.now() + ms(22 + draw(20)), fresh);
    if (draw(3) != 0) damage_.add(fixture_.now());
    return;
  }
  fixture_.show(data(fresh));
  check_injected();
  if (holes_.empty())
  {
    peers_.received = fresh.right;
    peers_.recent = peers_.remote_ts(fixture_.now());
  }
  if (!holes_.empty() || draw(3) != 0) acknowledge(draw(400) == 0 ? tcp_flag::ece : 0);
}

void World::repair()
{
  const Piece hole = holes_.front().second;
  holes_.pop_front();
  fixture_.show(data(hole));
  check_injected();
  peers_.recent = peers_.remote_ts(fixture_.now());
  peers_.received = holes_.empty() ? top_ : holes_.front().second.left;
  acknowledge();
}

void World::acknowledge(std::uint16_t flags, std::uint32_t back)
{
  Segment ack = peers_.ack(fixture_.now());
  ack.seq = ack.seq - back;
  ack.flags |= flags;
  // The first block above the hole, or above both where they are one.
  const bool apart = holes_.size() > 1 && holes_[1].second.left != holes_[0].second.right;
  const std::uint32_t behind = holes_.empty() ? 0 : (apart ? holes_.front() : holes_.back()).second.right;
  if (!holes_.empty() && top_ > behind)
  {
    ack.options |= option::sack;
    const std::uint32_t end = apart ? holes_[1].second.left : top_;
    ack.sack_blocks[ack.sack_count++] = { peers_.remote_isn + behind, peers_.remote_isn + end };
  }
  else if (holes_.empty() && peers_.received > 100'000 && draw(20) == 0)
  {
    // Something came twice (RFC 2883), an ACK was still due for what came before.
    ack.options |= option::sack;
    const Seq right = ack.ack - 1448 * draw(12);
    ack.sack_blocks[ack.sack_count++] = { right - 1448, right };
    ++coverage.duplicates;
  }
  if (!queue_)
  {
    server_.send(fixture_.now(), Link::wifi, ack.ack, ack.timestamps->value);
    own_ack_ = later(own_ack_, ack.ack);
    sent_ack_ = later(sent_ack_, ack.ack);
    sent_window_ = ack.window;
    sent_value_ = ack.timestamps->value;
    if (ack.sack_count > 0) sacked_ = later(sacked_, ack.sack_blocks[0].right);
    log_.push_back("beside the queue " + std::to_string((ack.ack - peers_.remote_isn.raw).raw));
    return;
  }
  note();
  own_step_ = ack.ack.after(own_ack_) ? static_cast<std::uint32_t>(ack.ack - own_ack_) : 0;
  own_ack_ = later(own_ack_, ack.ack);
  const chain::Outcome outcome = fixture_.show(ack).value_or(chain::Outcome {});
  check_injected();
  if (::testing::Test::HasFatalFailure()) return;
  if (outcome.verdict == Verdict::drop)
  {
    ++coverage.left_out;
    ASSERT_TRUE(ack.sack_count == 0 && ack.flags == tcp_flag::ack) << "an ACK that carries more was left out" << tail();
  }
  else
  {
    if (!strict_.active && outcome.why.starts_with("rate: window bounded"))
      check_bound(ack, outcome.edit.window.value_or(ack.window));
    leaves(outcome.why, outcome.edit.route.value_or(Link::wifi), outcome.edit.ack.value_or(ack.ack),
           outcome.edit.window.value_or(ack.window), outcome.edit.ts_value.value_or(ack.timestamps->value),
           ack.sacks());
  }
  own_step_ = 0;
  compare();
}

// RFC 9293 3.8.6: the right edge that was offered stays offered, unless the local TCP itself takes it back.
void World::check_bound(const Segment& ack, std::uint16_t window)
{
  ++coverage.rate_bound;
  const FlowView& view = fixture_.view(peers_);
  const Seq bound = ack.ack + view.scaled(window), own = ack.ack + view.scaled(ack.window);
  ASSERT_TRUE(bound.before(own)) << "nothing is bounded" << tail();
  ASSERT_TRUE((sent_ack_ + view.scaled(sent_window_)).at_or_before(bound)) << "the right edge moves back" << tail();
}

void World::note()
{
  const FlowView& view = fixture_.view(peers_);
  reserved_ = view.ts_reserved;
  const std::uint32_t now = chain::may_wait({}, view, fixture_.links[static_cast<std::size_t>(Link::wifi)]);
  // What was kept under a wider bound, as before a blackout that was foreseen, is let go later.
  may_wait_ = own_ack_ == sent_ack_ ? now : std::max(may_wait_, now);
}

void World::check_injected()
{
  for (; noted_ < fixture_.actions.injected.size() && !::testing::Test::HasFatalFailure(); ++noted_)
  {
    const InjectedRecord& one = fixture_.actions.injected[noted_];
    if (one.segment.kind != InjectedKind::ack) continue;
    if (one.why == "chain: for firewalls on the way of the data")
    {
      for_firewalls(one.segment);
      continue;
    }
    const bool own = one.why.starts_with("strict");
    if (!own && strict_.window != 0xffff)
    {
      ++coverage.strict_bound;
      ASSERT_LE(one.segment.window, strict_.window) << "another module reopens a window: " << one.why << tail();
    }
    const bool ahead = one.why == "chain: withheld ACK ahead of a hole"; // for nobody anything is kept then
    if (!own && !ahead && strict_.withheld > 0)
    {
      ++coverage.strict_bound;
      ASSERT_TRUE(one.segment.ack.at_or_before(later(sent_ack_, fixture_.view(peers_).rcv_nxt - strict_.withheld)))
          << "another module acknowledges what is withheld: " << one.why << tail();
    }
    leaves(one.why, one.segment.by, one.segment.ack, one.segment.window,
           one.segment.timestamps.value_or(Timestamps {}).value,
           std::span { one.segment.sack_blocks }.first(one.segment.sack_count));
  }
  // Here the server hears what leaves in the order of leaving, so that no ACK may wait for others (what that does has
  // tests of its own: tests/unit/chain/release_test.cc).
  if (const flow::Flow* flow = fixture_.chain.table().find(peers_.key))
    if (chain::Elsewhere* other = fixture_.chain.elsewhere(flow->view.id)) other->added = {};
}

// What the server takes no notice of (decision 0042).
void World::for_firewalls(const InjectedSegment& ack)
{
  ++coverage.for_firewalls;
  ASSERT_TRUE(home_) << "nobody may speak for an address that is gone" << tail();
  ASSERT_EQ(ack.by, Link::wifi);
  ASSERT_TRUE(ack.ack.before(server_.acknowledged))
      << "the server might heed it: " << (ack.ack - peers_.remote_isn.raw).raw << " of "
      << (server_.acknowledged - peers_.remote_isn.raw).raw << tail();
  ASSERT_TRUE(ack.timestamps && ack.timestamps->value.at_or_before(sent_value_))
      << "younger than what it has" << tail();
  ASSERT_FALSE(fixture_.view(peers_).ts_reserved.holds(ack.timestamps->value)) << "a reserved TSval by Wi-Fi" << tail();
  server_.send(fixture_.now(), Link::wifi, ack.ack, ack.timestamps->value);
}

// What the server hears, and what may never be told it.
void World::leaves(std::string_view why, Link by, Seq ack, std::uint16_t window, TsClock value,
                   std::span<const SackBlock> blocks)
{
  log_.push_back(std::to_string(fixture_.now().time_since_epoch().count() / 1000) + " us by " + std::string { name(by) }
                 + " ack " + std::to_string((ack - peers_.remote_isn.raw).raw) + " win " + std::to_string(window)
                 + " TSval " + std::to_string((value - peers_.local_clock.raw).raw) + " " + std::string { why });
  ASSERT_TRUE(home_) << "nobody may speak for an address that is gone: " << why << tail();
  ASSERT_TRUE(ack.at_or_before(peers_.remote_isn + peers_.received)) << "beyond received" << tail();
  // A NAT that nobody knows of may deliver the server's RST, which has this number.
  ASSERT_FALSE(by == Link::cell && filtered_ && (ack + PathValidation::lag).after(peers_.remote_isn + peers_.received))
      << "an RST of this number would end the connection: " << why << tail();
  ASSERT_LE(window, peers_.window) << "window raised" << tail();
  ASSERT_TRUE(value.at_or_before(peers_.local_ts(fixture_.now()))) << "ahead of the kernel's clock" << tail();
  const TsReservation& now = fixture_.view(peers_).ts_reserved;
  ASSERT_FALSE(by == Link::wifi && now == reserved_ && reserved_.holds(value)) << "a reserved TSval by Wi-Fi" << tail();
  // A block at or above the number of its ACK is data beyond a hole to the server (RFC 6675): never what came twice.
  // `mirror` alone shows so what is here as well, on purpose.
  for (const SackBlock& block : blocks)
    ASSERT_TRUE(block.left.after(peers_.remote_isn + peers_.received) || block.left.before(ack)
                || why.starts_with("mirror: old echo beside a block"))
        << "a duplicate looks like data beyond a hole: " << why << tail();
  // Decision 0015: a burst of the server's is never much larger than the local TCP's own ACKs would have drawn.
  // What SACK blocks have reported draws none when its number comes.
  const Seq known = later(sent_ack_, sacked_);
  const std::uint32_t step = ack.after(known) ? static_cast<std::uint32_t>(ack - known) : 0;
  ASSERT_LE(step, own_step_ + may_wait_) << "advances the server too far at once: " << why << tail();
  coverage.ahead_of_own += step > own_step_ ? 1 : 0;
  server_.send(fixture_.now(), by, ack, value);
  sent_ack_ = later(sent_ack_, ack);
  for (const SackBlock& block : blocks)
    sacked_ = later(sacked_, block.right);
  sent_window_ = window;
  if (value.after(sent_value_)) sent_value_ = value;
}

void World::compare()
{
  const FlowView& view = fixture_.view(peers_);
  if (resumed_)
  {
    resumed_ = false;
    sent_ack_ = view.sent_ack;
    sent_window_ = view.sent_window;
    sent_value_ = view.sent_ts_value;
  }
  ASSERT_EQ(view.sent_ack, sent_ack_) << "the tracker does not know what left" << tail();
  ASSERT_EQ(view.sent_window, sent_window_) << "the tracker does not know what left" << tail();
  ASSERT_EQ(view.sent_ts_value, sent_value_) << "the tracker does not know what left" << tail();
}

// Once nothing more arrives the server knows within seconds all that the local TCP has acknowledged, and may send on.
void World::settle()
{
  while (!holes_.empty() && !::testing::Test::HasFatalFailure())
    repair();
  for (int i = 0; i < 3 && !::testing::Test::HasFatalFailure(); ++i)
  {
    arrival();
    pass(ms(1));
  }
  while (!holes_.empty() && !::testing::Test::HasFatalFailure())
    repair();
  if (own_ack_ != peers_.remote_isn + peers_.received) acknowledge();
  pass(ms(4000));
  // A server that follows PAWS to the letter may refuse the last ACK by Wi-Fi of a validation (decision 0003).
  if (::testing::Test::HasFatalFailure() || strict_.active || server_.paws_window == 0) return;
  server_.echo(fixture_.now());
  const FlowView& view = fixture_.view(peers_);
  ASSERT_EQ(server_.acknowledged, own_ack_) << "the flow hangs, the server lacks an ACK" << tail();
  ASSERT_GE(view.scaled(sent_window_), std::min<std::uint32_t>(view.scaled(peers_.window), 4u * view.mss))
      << "the flow hangs, its window is closed" << tail();
}

// This host has nothing more to say (FIN), while the download goes on.
void World::half_close()
{
  if (draw(2) == 0 || ::testing::Test::HasFatalFailure()) return;
  Segment fin = peers_.bare(Direction::egress, tcp_flag::fin | tcp_flag::ack, fixture_.now());
  fixture_.show(fin);
  check_injected();
  ++peers_.next;
  ++coverage.half_closed;
  server_.send(fixture_.now(), Link::wifi, fin.ack, fin.timestamps->value);
  run(500);
  change_address(true);
  change_link(true, false);
  change_queue(true);
}

void World::finish()
{
  change_address(true);
  change_link(true, false);
  change_queue(true);
  half_close();
  settle();
  for (std::size_t i = 0; i < fixture_.chain.module_count() && !::testing::Test::HasFatalFailure(); ++i)
  {
    const auto& stats = fixture_.chain.stats(i);
    EXPECT_EQ(stats.excluded, 0u) << fixture_.chain.module(i).name() << tail();
    EXPECT_EQ(stats.faults, 0u) << fixture_.chain.module(i).name();
    for (std::size_t v = 0; v < chain::violation_count; ++v)
      if (const auto one = static_cast<chain::Violation>(v); !chain::is_conflict(one) && !chain::is_refusal(one))
      {
        EXPECT_EQ(stats.violations[v], 0u) << fixture_.chain.module(i).name() << ": " << chain::name(one) << tail();
      }
  }
  const std::uint64_t validated =
      fixture_.count("offload: path validated") + fixture_.count("freeze: cellular path validated");
  if (filtered_)
  {
    EXPECT_EQ(validated, 0u) << "a path was validated that nothing passes" << tail();
  }
  coverage.filtered_runs += filtered_ ? 1 : 0;
  coverage.validated += validated;
  coverage.probes += fixture_.count("offload: probe by cellular") + fixture_.count("freeze: path probe by cellular");
  coverage.withheld += fixture_.count("freeze: ACK withheld");
  coverage.resumed += fixture_.count("freeze: resume ACK") + fixture_.count("freeze: resume ACK, window reopens");
  coverage.closed_ahead += fixture_.count("freeze: window closed, blackout predicted");
  coverage.hidden += fixture_.count("mirror: hidden, queue not full");
  coverage.ts_lowered += fixture_.chain.stats().ts_lowered;
  coverage.on_word += fixture_.count("offload: path known from another flow");
  coverage.ts_spoiled += fixture_.chain.stats().ts_spoiled;
}

} // namespace tandem::test
