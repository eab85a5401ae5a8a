#include "modules/freeze/freeze.h"

namespace tandem::freeze
{

std::string_view Freeze::summary() const
{
  return "Lets a download go on one round trip after a Wi-Fi blackout, instead of when the server's retransmission "
         "timer next fires.";
}

std::string_view Freeze::manual() const
{
  return R"(While the Wi-Fi is gone the server's retransmission timer doubles with every try, and its congestion window collapses: a blackout of two
seconds easily costs four. `freeze` cannot speak to the server over a dead link, but it can prepare.

**Withheld ACK.** Of a download (256 KiB delivered, `bulk_window`) the acknowledgement of the last few segments is withheld: the ACK number in
each ACK is lowered. As much is withheld as half of the data that is queued anyway (not the ACKs), or a hundredth of the window; more after a warning, and for 20 s after a blackout. Whatever
goes wrong, the server would only send these bytes again; when the flow pauses they are acknowledged after `release_after`. ACKs with SACK blocks are never
touched. A flow that its receive window limits would pay for a withheld ACK, and so would one of fewer than a hundred segments with nothing queued: by default
none is withheld there, and LCD serves the flow.

**Resume ACK.** At link-up the withheld bytes are acknowledged at once, a few times. The server has not seen this ACK before: it cancels the
timer's back-off and, because its timestamp (TSecr) is older than the server's retransmissions, the collapse of the congestion window as well
(RFC 3522, and `tcp_try_undo_loss` of Linux). Data arrives one round trip later. The segments that were really lost are then found by SACK and sent
again; the ACK that ends this episode carries one older TSecr, so that the blackout is not taken for congestion.

**LCD.** Where nothing was withheld, or resume ACKs get no answer, an ICMP host unreachable that quotes the flow follows (RFC 6069, TCP-LCD): it takes
back the doublings of the timer.

**What this host sent.** Requests, uploads and new connections that were lost in the blackout do not wait for this host's own timers, which have
doubled: the local TCP is told to repeat at once what is not acknowledged (RFC 6069), and a SYN without an answer leaves once more. Of every connection
by Wi-Fi, short ones included; not of programs that ask for ICMP messages (`IP_RECVERR`).

**Proactive freeze.** When a blackout is predicted (`tandem link announce risk`, or the radio's signal) the window is closed, so that nothing is in
flight when it comes. Window probes are answered. At link-up, when the warning is withdrawn, or after `closed_longest` the window reopens at the pace
of the link; after a warning that came to nothing the next ones are ignored for a while (back-off).

**Access points that keep frames.** Some send at link-up what arrived while the station was gone. Its ACKs tell the server all that a resume ACK
would. Where the first data after a blackout was sent as it began (by its TSval), nothing is withheld from flows of that access point any more, and
at link-up such data is waited for, 50 to 100 ms; only when none comes the resume ACK follows. What one flow found stands for later ones and
over restarts (`tandem networks`), for this access point alone, by its hardware address; as soon as frames are waited for in vain it is withdrawn, and
it takes one blackout more each time to be believed again. Where nobody can tell which access point it is, each flow finds out for itself, and waits a quarter
of a round trip (5 to 25 ms).

Without a second interface all of this works just as well. The other strategies exist for comparison: `paced_release` releases the withheld ACK a
part at a time over the cellular link, with a closed window, so that the timer never fires; `zero_window` closes the window over the cellular link once
the link is gone, as published in 2009, and is worse than nothing against today's Linux senders, because they have data in flight. Both validate the
cellular path, as `offload` does, while all is well, and send nothing by it otherwise (`validate_path`).

**Senders** (`tandem flows` says which kind a flow faces, and why):

| sender | what is done |
|---|---|
| loss-based, rate-based (BBR), unknown | all of the above |
| unresponsive: not Linux's TCP | all but the older TSecr at the end of the episode, which it would not understand |
| of these gVisor's netstack | nothing is withheld either: it gained nothing by that after blackouts, and lost through random losses |

MPTCP subflows, flows with accurate ECN, and flows faster than 2 Gb/s are bypassed. Where MPTCP was asked for and the server refused it nothing is withheld and nothing
leaves by cellular: a retransmission that begins within what has arrived breaks such a connection in Linux 6.18.)";
}

std::span<const RetiredKnob> Freeze::retired_knobs() const
{
  static constexpr std::array<RetiredKnob, 15> retired { {
      { "reserve_share", "is called withheld_share now" },
      { "reserve_queue", "is called withheld_queue now" },
      { "ahead_longest", "is called closed_longest now" },
      { "prove", "is called validate_path now" },
      { "bulk_bytes", "is a constant now: 262144 bytes" },
      { "reserve_recent", "is a constant now: 0.02 of the window" },
      { "reserve_warned", "is a constant now: 0.125 of the window" },
      { "reserve_most", "is a constant now: a third of the window" },
      { "risk_memory", "is a constant now: 60 s" },
      { "kick_gap", "is a constant now: 10 ms" },
      { "kicks", "is a constant now: 8" },
      { "undo", "is always on now" },
      { "drips", "is a constant now: 6" },
      { "ahead_rest", "is a constant now: 10 s" },
      { "rest_above", "is a constant now: 2 Gb/s" },
  } };
  return retired;
}

Interest Freeze::interest() const
{
  // Copies of what arrives are for the RTT, without which no window is known.
  return {
    .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data, .radio = true, .own_unanswered = true
  };
}

} // namespace tandem::freeze

using tandem::freeze::Freeze;
TANDEM_MODULE(Freeze);
