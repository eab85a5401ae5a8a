"""What a module decided about each loss episode, against what the emulator knows of its losses. Pure: same recording, same losses, same verdict.

An episode is what one decision speaks for: the sequence range from the cumulative acknowledgement at which its first hole opened (or at which the decision
before it ended) to the acknowledgement that carries the decision. It is "congestion" when a queue lost or marked any segment in it, "random" when all that
was lost in it was lost behind the queue, and "none" when nothing was lost (reordering, spurious retransmission). Losses that no decision speaks for
count as an episode that was not hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Sequence

from tandem_lab.losses import Loss

from .recording import Ack

HIDDEN, KEPT = "mirror: hidden", "mirror: kept"
LEFT_ALONE = "mirror: kept, this sender is left alone"  # a verdict about the sender, none about the loss
UNDECIDED = "no decision"
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Episode:
    """One episode of one connection. `truth` is "random", "congestion" or "none"."""

    at: float
    flow: tuple[str, int, int]  # server, its port, the client's port
    begin: int
    end: int
    hidden: bool
    why: str
    truth: str
    random_losses: int
    queue_losses: int


def inside(seq: int, begin: int, end: int) -> bool:
    """Whether begin <= seq < end, across the wrap."""
    return (seq - begin & _MASK) < (end - begin & _MASK)


def later(a: int, b: int) -> int:
    """The later of two sequence numbers."""
    return a if 0 <= (a - b & _MASK) < 1 << 31 else b


def judged(acks: Iterable[Ack], losses: Sequence[Loss]) -> list[Episode]:
    """All episodes of all connections, in order of the decisions' times per connection."""
    flows: dict[tuple[str, int, int], list[Ack]] = {}
    for ack in acks:
        flows.setdefault(ack.flow, []).append(ack)
    of_flow: dict[tuple[str, int, int], list[Loss]] = {}
    for loss in losses:
        if loss.down and loss.length > 0:
            of_flow.setdefault((loss.source, loss.source_port, loss.destination_port), []).append(loss)
    return [episode for flow, sent in flows.items() for episode in _of_flow(flow, sent, of_flow.get(flow, []))]


def _of_flow(flow: tuple[str, int, int], sent: Sequence[Ack], losses: Sequence[Loss]) -> list[Episode]:
    found: list[Episode] = []
    steps: list[tuple[float, int, int]] = []  # between two moments without a hole: time of the later one, and their acknowledgements
    whole: int | None = None  # acknowledgement of the latest packet that showed no hole
    decided: int | None = None  # end of the latest decision
    for ack in sent:
        if not ack.flags & 0x10:
            continue  # the SYN acknowledges nothing
        if whole is None:
            whole = ack.ack
        verdict = _verdict(ack.comment)
        if verdict is not None:
            begin = whole if decided is None else later(decided, whole)
            if begin != ack.ack:
                found.append(_episode(ack.at, flow, begin, ack.ack, verdict, ack.comment, losses))
                decided = ack.ack
        if not ack.sacked and later(ack.ack, whole) == ack.ack and ack.ack != whole:
            steps.append((ack.at, whole, ack.ack))
            whole = ack.ack
    spoken_for = [(episode.begin, episode.end) for episode in found]
    missing = [loss for loss in losses if not any(inside(loss.seq, begin, end) for begin, end in spoken_for)]
    for at, begin, end in steps if missing else ():
        left = [loss for loss in missing if inside(loss.seq, begin, end)]
        if left:
            found.append(_episode(at, flow, begin, end, False, UNDECIDED, left))
    return sorted(found, key=lambda episode: episode.at)


def _verdict(comment: str) -> bool | None:
    if HIDDEN in comment:
        return True
    return False if KEPT in comment else None


def _episode(at: float, flow: tuple[str, int, int], begin: int, end: int, hidden: bool, why: str, losses: Sequence[Loss]) -> Episode:
    own = [loss for loss in losses if inside(loss.seq, begin, end)]
    queue = sum(loss.congestion for loss in own)
    truth = "congestion" if queue else "random" if own else "none"
    _, _, reason = why.partition(": ")
    return Episode(at, flow, begin, end, hidden, reason or why, truth, len(own) - queue, queue)


def samples(episodes: Iterable[Episode], truth: str) -> list[int]:
    """1 for every hidden episode of that truth, 0 for every other; none for what the sender was left alone with."""
    return [int(episode.hidden) for episode in episodes if episode.truth == truth and episode.why != LEFT_ALONE]
