#include "modules/offload/offload.h"

#include <array>

namespace tandem::offload
{

namespace
{

constexpr std::array<RetiredKnob, 10> retired { {
    { .name = "regret", .now = "is called goodput_loss_limit now" },
    { .name = "thin_at_home", .now = "is called wifi_ack_ratio now" },
    { .name = "proof_acks", .now = "is a constant now: 64 ACKs" },
    { .name = "retry_longest", .now = "is a constant now: 300 s" },
    { .name = "added_delay_share", .now = "is a constant now: 1" },
    { .name = "added_delay_longest", .now = "is a constant now: 250 ms; added_delay_free alone may be longer" },
    { .name = "stretch", .now = "is a constant now: 16" },
    { .name = "stretch_time", .now = "is a constant now: 0.25 RTT" },
    { .name = "sparse_acks", .now = "is a constant now: 32 MSS" },
    { .name = "cell_budget", .now = "moved to budget.cell_bytes", .refused = true },
} };

} // namespace

std::string_view Offload::summary() const
{
  return "Moves the pure ACKs of a download from the Wi-Fi air to the cellular link, as long as the server's "
         "echoes validate that path.";
}

std::string_view Offload::manual() const
{
  return R"(Wi-Fi is half-duplex: every TCP ACK takes air from the data it acknowledges, and costs a contention of its own. `offload` lets the
pure ACKs of a download leave by the cellular interface, with the Wi-Fi source address, so that the server sees one connection as before.

**Path validation.** A cellular network may drop packets with a foreign source address, or rewrite it. So nothing is assumed: while the Wi-Fi ACKs keep
one timestamp (TSval), a few copies with the next one leave by cellular. When the server echoes that very timestamp (TSecr) the path is
validated (as RFC 9000 8.2 has it), and its delay is known. From then on all pure ACKs of the flow leave by cellular, with an odd TSval, and every
echo validates the path again. When echoes fail to appear, the flow returns to Wi-Fi at once and tries again later, with a back-off that doubles.

**Behind a NAT**, as in most homes, no ACK by cellular has the address that the server knows: the path is not validated, and ACKs stay on Wi-Fi. Two tunnels to a relay of your own end that (docs/relay.md).

**A NAT that begins later** makes another connection of the ACKs, and the server answers each with an RST of its very number. TCP would take it where no data arrives in between, so what leaves
by cellular acknowledges two bytes less than has arrived, and what has to say all (ACKs with SACK, and others until a loss is repaired) leaves by Wi-Fi.
Where MPTCP was asked for and the server refused it, all leave whole and by Wi-Fi: a retransmission that begins within what has arrived breaks such a connection in Linux 6.18.

**A firewall on the way of the data** that keeps the state of connections would drop what lies beyond the window that it has seen, or reset the connection. So now and then an old ACK leaves by Wi-Fi, which the server
ignores, with a large window. Where the receive window is hardly larger than what is in flight no ACK leaves by cellular (`short receive window`).

What one flow has found holds for others for hours: a flow to the same servers (/24, IPv6 /48), from the same Wi-Fi network and by the same cellular link, sends
no copies, and its first ACKs by cellular are the validation (`path known from another flow`). If no echo comes in time (an RTT, 100 ms, and up to 50 ms that the path is known to add) it is back on Wi-Fi, nobody goes by
what was known any more, and each flow validates by itself again.

**When.** Only above `window_mss` segments of window, only while the cellular ACK path adds less delay than the flow has standing in queues
on average (`added_delay_free`: always), and only as long as that queue stands and the goodput does not fall (`goodput_loss_limit`). What is queued is counted from the
shortest round trip by Wi-Fi of the whole flow, as a queue may stand for minutes. After a blackout or a handoff queue and goodput are measured anew.
Where the driver tells that the air has room (below) and no ACK waits for it, ACKs by cellular save nothing and cost the budget: after the flow's first three seconds none
leave that way, and those of two surveys later come back (`the air has room for ACKs`).

**Without a cellular path** (filtered, translated, too slow, or no link) fewer ACKs leave by Wi-Fi instead: at most `wifi_ack_ratio` to one,
at least sixteen in a round trip, each for at most eight segments. Where the driver's survey tells that the air is not full (less than 60 % in use, by anybody; without
a survey: what this laptop receives takes less than 15 %), all leave: nothing would be saved, and a sender behind a narrow uplink of the wire needs them to clock itself by.

**By both links.** An access point that always has something to send lets the ACKs of a whole window wait for the air now and then, and the server answers
them with a burst as large, which overflows the access point's queue. Where the cellular path works, but is too slow to be the only one, what has left by Wi-Fi leaves
by cellular as well, eight times in a round trip, for two seconds after an ACK by Wi-Fi was half as late as such a copy is. So no wait is longer than cellular takes. `tandem flows` says `copies by cellular` then.

**Slow uplinks.** By cellular a flow begins with as few ACKs as by Wi-Fi. The delays of two ACKs tell how many more were sent than the uplink took, before
their queue is long: so many fewer leave from then on, down to one in sixteen, and more again ten seconds later, a step at a time. An uplink that takes not even those is left for four
seconds and more. Either way only an ACK that carries nothing but what the next one repeats is left out, and never for longer than a quarter of a round trip, nor, where the uplink is not thin, than 25 ms.
ACKs with SACK, DSACK, ECE, FIN or RST always leave, and those with another window; on a thin uplink not those whose window has grown while the server does not wait for it.

**Senders** (`tandem flows` says which kind a flow faces, and why):

| sender | what is done |
|---|---|
| loss-based, unknown | all of the above |
| rate-based (BBR) | all of the above but copies by both links, and once it has started: each change of path is a false sample of its bandwidth. Up to the shortest round trip (250 ms at most) may be added whatever stands in queues. Where losses let two of three ACKs leave by Wi-Fi, all do for 20 s |
| unresponsive: not Linux's TCP | nothing: such a stack may grow its window by ACKs, and take what two paths make of their order for losses |

**Budget.** What Tandem may put on the cellular link in total is set once for all modules: `budget.cell_bytes` in docs/configuration.md.

`strategy = "fraction"` is the method as published in 2009, for comparison: each ACK goes by cellular with probability `fraction`, unvalidated.)";
}

std::span<const RetiredKnob> Offload::retired_knobs() const
{
  return retired;
}

Interest Offload::interest() const
{
  // Echoes validate the path and give the RTT, without which no window is known. The radio tells whether the air is
  // full; its sources are open for whoever wants that.
  return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data, .radio = true };
}

} // namespace tandem::offload

using tandem::offload::Offload;
TANDEM_MODULE(Offload);
