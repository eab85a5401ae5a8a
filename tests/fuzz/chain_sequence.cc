// Any sequence of segments of three connections through tracker and chain with every module on: whatever they say of
// themselves, this host never acknowledges what it has not received, never opens a window wider than its TCP did, and
// nothing is sent that no segment of the flow made true.
// Input: options (1 byte), then records of six bytes: kind, flow, four bytes of numbers.
#include "modules/ecn/ecn.h"
#include "modules/freeze/freeze.h"
#include "modules/mirror/mirror.h"
#include "modules/offload/offload.h"
#include "modules/rate/rate.h"
#include "tests/fuzz/check.h"
#include "tests/golden/harness/fixture.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

using namespace tandem;
using namespace tandem::test;
using tandem::fuzz::check;

namespace
{

class Run
{
public:
  explicit Run(std::uint8_t options) : fixture_ { { &freeze_, &mirror_, &offload_, &ecn_, &rate_ }, worth(options) }
  {
    fixture_.see_everything = (options & 1) != 0;
    if ((options & 2) != 0) mirror_.set("strategy", 1 + (options >> 7));
    if ((options & 4) != 0) offload_.set("window_mss", 1);
    if ((options & 8) != 0) freeze_.set("strategy", 2);
    peers_[1].key = key_v4(40001);
    peers_[1].remote_isn = Seq { 0u - 9000u }; // wraps soon
    peers_[1].local_clock = TsClock { 0u - 500u };
    peers_[1].timestamps = (options & 16) == 0;
    peers_[2].key = key_v6(40002);
    peers_[2].sack = (options & 32) == 0;
    fixture_.run_for(ms(1));
    for (Peers& one : peers_)
      if ((options & 64) == 0) fixture_.open(one);
  }

  void take(std::span<const std::uint8_t, 6> record)
  {
    Peers& peer = peers_[record[1] % 3];
    const std::uint32_t number = record[2] | record[3] << 8 | record[4] << 16;
    const std::uint32_t length = 1 + (record[2] | record[3] << 8) % 3000;
    const Tick now = fixture_.now();
    switch (record[0] % 12)
    {
    case 0:
    case 1: // in order, and acknowledged
      fixture_.data(peer, length, peer.local_ts(now - ms(20)));
      return show(peer.ack(now));
    case 2: // lost: the next one leaves a hole
    {
      Segment s = peer.data_in(now, length, peer.local_ts(now - ms(20)));
      s.seq = s.seq + 1448u * (1 + record[5] % 8);
      show(s);
      Segment ack = peer.ack(now);
      ack.options |= option::sack;
      ack.sack_blocks[0] = { s.seq, s.end() };
      ack.sack_count = 1;
      return show(ack);
    }
    case 3: // from anywhere, with any flags
    {
      Segment s = peer.data_in(now, (record[5] & 1) != 0 ? length : 0, { number });
      s.seq = s.seq + number;
      s.flags = static_cast<std::uint16_t>(record[5] | (record[1] & 0x80) << 1);
      s.window = static_cast<std::uint16_t>(number);
      return show(s);
    }
    case 4: // of this host, with any numbers
    {
      Segment s = peer.ack(now);
      s.window = static_cast<std::uint16_t>(number);
      s.flags = static_cast<std::uint16_t>(s.flags | record[5]);
      if ((record[1] & 0x80) != 0) s.ack = s.ack - number % 65536;
      return show(s);
    }
    case 5:
      show(peer.data_out(now, length));
      peer.next += length;
      return;
    case 6: // options that nobody expects
      peer.more_options = (record[5] & 1) != 0 ? 1u << (number % 32) : 0;
      peer.mss = static_cast<std::uint16_t>(number);
      return show(peer.ack(now));
    case 7:
      fixture_.open(peer);
      return;
    case 8:
      fixture_.links[record[5] % 2].up = (record[5] & 2) != 0;
      fixture_.links[record[5] % 2].at_risk = (record[5] & 4) != 0;
      fixture_.chain.links(fixture_.links, now);
      look();
      if ((record[5] & 8) != 0) own_unanswered(peer, record[5], number);
      return;
    case 9:
      fixture_.chain.enable(record[5] % fixture_.chain.module_count(), (record[5] & 0x80) == 0, now);
      return look();
    case 10:
      return answer_fetch(record[5], number);
    default:
      fixture_.run_for(std::chrono::microseconds { number >> (record[5] % 12) });
      return look();
    }
  }

private:
  static chain::Chain::Options worth(std::uint8_t options)
  {
    chain::Chain::Options made {};
    made.worth = (options & 16) != 0 ? 14'480 : 0;
    made.seed = options;
    return made;
  }

  // Whether the server was told of all that the blocks tell.
  static bool reported(const Segment& segment, const FlowView& flow)
  {
    return std::ranges::none_of(segment.sacks(),
                                [&](const SackBlock& block) { return block.right.after(flow.sent_sacked); });
  }

  void show(const Segment& segment)
  {
    const auto outcome = fixture_.show(segment);
    if (outcome)
    {
      const Edit& edit = outcome->edit;
      check(segment.direction == Direction::egress || !edit.ack, "what arrives is not acknowledged otherwise");
      check(!edit.window || *edit.window <= segment.window, "no window is opened wider");
      check(!edit.ts_value || !segment.timestamps || edit.ts_value->at_or_before(segment.timestamps->value),
            "no TSval is raised");
      if (edit.ack && !fetched_) check(edit.ack->at_or_before(segment.ack), "nothing is acknowledged ahead");
      check(outcome->verdict == Verdict::pass || (segment.is_pure_ack() && reported(segment, *outcome->flow)),
            "only ACKs are left out that report nothing new");
    }
    look();
  }

  // What the kernel may say of a socket at link-up, true or not.
  void own_unanswered(const Peers& peer, std::uint8_t how, std::uint32_t number)
  {
    fixture_.chain.unanswered({ .flow = peer.key,
                                .opening = (how & 16) != 0,
                                .doubled = static_cast<std::uint8_t>(number),
                                .acked = number >> 8,
                                .unacked = number >> 16 },
                              fixture_.now());
    fixture_.actions.carry_out(fixture_.chain);
    check(fixture_.actions.injected.size() <= 30, "as many messages as doublings, for three places at most");
    for (const InjectedRecord& one : fixture_.actions.injected)
    {
      const InjectedSegment& made = one.segment;
      const bool syn = made.kind == InjectedKind::own_syn;
      check(syn || made.kind == InjectedKind::own_unreachable, "of its own it says nothing else");
      check(made.by == (syn ? Link::wifi : Link::other), "a SYN by its link, a message to this host");
      check(!syn || !made.original.empty(), "a SYN that was seen");
      check(!syn || !made.timestamps || made.timestamps->value.at_or_before(peer.local_ts(fixture_.now())),
            "no clock of the future");
    }
    look();
  }

  // What was sent since the last look.
  void look()
  {
    for (const InjectedRecord& one : fixture_.actions.injected)
    {
      check(!one.why.empty(), "sent for a reason");
      check(one.segment.sack_count <= one.segment.sack_blocks.size(), "as many blocks as there are");
      check(one.segment.kind != InjectedKind::fill || one.segment.length > 0, "a fill fills");
      check(fixture_.actions.now >= one.segment.at, "not before its time");
    }
    fixture_.actions.injected.clear();
    fixture_.actions.requests.clear();
    for (const auto& one : peers_)
      if (const flow::Flow* flow = fixture_.chain.table().find(one.key))
        check(flow->view.rtt_smoothed >= Duration {} && flow->view.rtt_min >= Duration {}, "no time before now");
  }

  void answer_fetch(std::uint8_t how, std::uint32_t number)
  {
    if (fixture_.actions.asked.empty()) return;
    const Asked asked = fixture_.actions.asked.front();
    fixture_.actions.asked.erase(fixture_.actions.asked.begin());
    FetchResult result { .how = asked.fetch.how,
                         .from = asked.fetch.from,
                         .to = asked.fetch.to,
                         .ok = (how & 1) != 0,
                         .final = (how & 6) == 6 };
    if (!result.ok) result.why = "broken";
    fetched_ = fetched_ || result.ok;
    fixture_.chain.fetched(asked.flow, asked.slot, result, number, fixture_.now());
    look();
  }

  freeze::Freeze freeze_ {};
  mirror::Mirror mirror_ {};
  offload::Offload offload_ {};
  ecn::Ecn ecn_ {};
  rate::RatePolicy rate_ {};
  Fixture fixture_;
  std::array<Peers, 3> peers_ {};
  bool fetched_ = false; // from then on this host holds bytes that the segments do not show
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 1 || size > 6 * 500) return 0;
  Run run { data[0] };
  for (std::size_t at = 1; at + 6 <= size; at += 6)
    run.take(std::span<const std::uint8_t, 6> { data + at, 6 });
  return 0;
}
