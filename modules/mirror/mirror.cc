#include "modules/mirror/mirror.h"

namespace tandem::mirror
{

std::string_view Mirror::summary() const
{
  return "Hides wireless losses from the sender's congestion control, and leaves those of full queues visible.";
}

std::string_view Mirror::manual() const
{
  return R"(A download over a lossy link is slow because its sender takes every loss for congestion and halves its window: three lost segments in a thousand
leave a third of a 20 Mb/s link with a round trip of 50 ms, one in a hundred a seventh. `mirror` lets the server repair the loss as ever, but takes back what its congestion
control made of it. Nothing is acknowledged that was not received, it works under TLS, and it needs no second interface.

**Undo.** The SACK blocks of this host's own ACKs show the holes and when they are filled. On the ACK that reaches the recovery point the echoed timestamp
(TSecr) is set just before the first retransmission. A sender that follows RFC 3522 and RFC 4015, as Linux does, concludes that the retransmission was not
needed and restores its window. Once per episode; while losses follow each other without a gap, at every step forward.
Then one echo serves for as long as that lasts, and where nothing else in an ACK tells the sender a round trip, the echo does: its timer would become seconds long. So an echo
older than 200 ms and four round trips leaves beside a new SACK block, from which Linux takes its sample. An ACK without one waits for the next, for as long as new data came in the last 25 ms;
an echo older than a second and 20 round trips never leaves without one.

**Air or queue.** Only wireless losses are hidden: a full queue must stay visible, or the link drowns. Each episode gets a score from 0 (the air) to 1
(congestion), `threshold` divides them. It is made of the queueing delay at the holes (one-way, from the server's timestamps) against the most that the queue held
lately; of losses that come again and again at the same delay; of the share lost at once; of the rate of losses that nothing but the air explains; of how much less is
lost once the sender has slowed down, which tells a policer, that lets nothing wait;
for a flow's first four episodes also of what others lose on the link: where a third of that is lost many at once, its queue is a short one; and, with a radio that listens (`links.radio`), of damaged frames heard at the time. One hole at a full queue makes the whole episode congestion's. An ECN echo always means congestion.

**Short queue.** While every round trip sees a loss no congestion window grows except in slow start. So once wireless losses were seen the advertised window keeps
the queueing delay near `cap` eighths of the round trip, and the sender's window stays above what is in flight. It also opens gently after an undo (`pace`), and in slow
start fewer ACKs are sent (`acks`), which keeps HyStart from ending it early. When somebody else fills the queue the cap is lifted; so it is 10 s after the last hidden loss, and
after 1 s where less than three quarters arrive of what came before and fewer than four episodes were hidden, or 6,000 segments after it where ten losses should have come: the queue itself had lost them. The queue may be 8 ms, two aggregates of
802.11n, while less arrives than did as the cap was set. A flow that never loses to the air
is not steered at all. A download from a server of whose last one the air lost something within the last minute, four times within 20 s, on a link that was not down since, is steered
from its beginning: its slow start would overflow the queue before its own first loss.

**Fetching.** Strategies `range` and `replay` also fetch the missing bytes of plaintext HTTP over the cellular link and hand them to the local TCP: by a Range request
with a strong ETag and If-Range, or, as published in 2009, from a mirror connection that replays the request. What is fetched is compared with what arrived on both sides
of the hole first, and the download is bypassed, with the reason, when anything differs (`tandem flows`). They pay where the cellular round trip is shorter than the
Wi-Fi path's, and they cost cellular volume, `replay` much more than `range`; see `[fetch]` in tandem.toml(5).

Bypassed are flows without SACK, MPTCP subflows, flows with accurate ECN, TCP-MD5 and TCP-AO. Without timestamps nothing is known of the queue: losses are hidden only when
a radio heard the damaged frames, by reporting the retransmissions as duplicates. A flow whose sender does not respond is bypassed for a while.

**Senders** (`tandem flows` says which kind a flow faces, and why):

| sender | what is done |
|---|---|
| loss-based: Reno, CUBIC, Vegas, Westwood, DCTCP of Linux | all of the above |
| rate-based: BBR and its kin | nothing; `range` and `replay` go on fetching. Such losses hardly slow it down, and a cap would limit it |
| unresponsive: not Linux's TCP | nothing; `range` and `replay` go on fetching. It takes nothing back |
| unknown | undo alone: most are loss-based, and an old echo does the others no harm. The window and the ACKs are left as they are until the kind is known, mostly before the first loss or with it, and for good when more than four losses were hidden by then |)";
}

std::span<const RetiredKnob> Mirror::retired_knobs() const
{
  static constexpr std::array<RetiredKnob, 3> retired { {
      { "dsack", "is always on now" },
      { "give_up", "is a constant now: 6" },
      { "rest", "is a constant now: 30 s" },
  } };
  return retired;
}

Interest Mirror::interest() const
{
  // Copies of what arrives are for the one-way delay.
  return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data, .radio = true, .content = fetches() };
}

} // namespace tandem::mirror

TANDEM_MODULE(tandem::mirror::Mirror);
