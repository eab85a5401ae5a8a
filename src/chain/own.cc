// What this host itself sent into a blackout (docs/decisions/0038).
#include "src/chain/chain.h"

#include <algorithm>
#include <array>

namespace tandem::chain
{

namespace
{

// Each message takes back one doubling, and the one that finds the timer expired makes the segment leave. Linux stops
// doubling at 120 s, which is the ninth of a timer of 200 ms.
constexpr std::uint8_t most_doublings = 10;

// A clock of 1 kHz, which the TSvals of Linux have; of a faster one it has advanced by less than the truth. Never by
// more: an echo from the future would be answered by a reset.
TsClock advanced(TsClock value, Duration by)
{
  return value + static_cast<std::uint32_t>(std::max<Duration::rep>(0, by / std::chrono::milliseconds { 1 } - 1));
}

} // namespace

void Chain::unanswered(const Unanswered& socket, Tick now)
{
  flow::Flow* flow = table_.find(socket.flow);
  if (flow == nullptr || left_alone(*flow)) return;
  const FlowView& view = flow->view;
  if (view.link != Link::wifi || (view.bypass != Bypass::none && view.bypass != Bypass::mid_flow)) return;
  std::uint8_t by = no_slot;
  for (std::size_t i = 0; i < slots_.size() && by == no_slot; ++i)
    if (acts(i, *flow) && slots_[i].module->interest().own_unanswered) by = static_cast<std::uint8_t>(i);
  if (by == no_slot) return;

  if (socket.opening)
  {
    const std::optional<SentSyns::Syn> syn = syns_.find(socket.flow, now);
    if (!syn) return;
    InjectedSegment again { .kind = InjectedKind::own_syn, .by = view.link, .original = syn->packet };
    if (syn->timestamps)
      again.timestamps = Timestamps { advanced(syn->timestamps->value, now - syn->sent), syn->timestamps->echo };
    ++stats_.own_syns;
    output_.segments.push_back({ view.id, view.key, again, "chain: SYN again, the link is back", known(view), by });
    return;
  }
  if (socket.doubled == 0) return;
  // The TCP acts on the message that quotes what it waits for, and on no other. Where the SYN was not seen that is what
  // the peer acknowledged last; or, of whose answer no copy was made, where this host's last ACK stood before it sent
  // what is lost now; or, when that was seen, so many bytes before its end.
  std::array<Seq, 3> quotes {};
  if (const std::optional<Seq> isn = flow->tracker.own_isn())
    quotes.fill(*isn + socket.acked);
  else
    quotes = { flow->tracker.una_known() ? view.snd_una : view.snd_nxt, view.snd_nxt, view.snd_nxt - socket.unacked };
  ++stats_.own_kicks;
  for (auto at = quotes.begin(); at != quotes.end(); ++at)
  {
    if (std::find(quotes.begin(), at, *at) != at) continue;
    for (std::uint8_t i = 0; i < std::min(socket.doubled, most_doublings); ++i)
      output_.segments.push_back({ view.id,
                                   view.key,
                                   { .kind = InjectedKind::own_unreachable, .by = Link::other, .seq = *at },
                                   "chain: own retransmission timer back, the link is back",
                                   known(view),
                                   by });
  }
}

} // namespace tandem::chain
