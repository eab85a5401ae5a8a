"""How fast data came while it was wanted, from looks at the kernel's counters. Pure.

Data is wanted of a connection from the moment it is asked for until it is there. A pause in which this host has asked for nothing is a stall: the server had
all it needed. A pause in which it has asked was the application's own up to then. What the application does not fetch from its socket is not wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Collection, Sequence

from .sockets import Counted, Look

BULK = 200_000  # bytes of a piece between two pauses: below it the round trips of its beginning are measured, which no module changes
FLOWING = 20_000  # bytes before a pause in one look's time: only such a one can stall
ASKS = 100  # bytes sent between two looks: a request; less are acknowledgements of HTTP/2 and its like (WINDOW_UPDATE, PING: 35 to 80 with TLS)
LONGEST_STALL = 30.0  # seconds: beyond it a server is taken to have had nothing
UNREAD = 65_536  # bytes in the socket that the application leaves there


@dataclass(frozen=True)
class Demand:
    """Of a block. `wanted_s`: time in which at least one connection wanted data; `stalled_s` of it: time in which none got any."""

    bytes: int
    wanted_s: float
    stalled_s: float
    longest_stall_s: float
    flows: int
    rtt_ms: float | None  # mean of the connections' smoothed ones, weighted by what they received

    @property
    def mbps(self) -> float:
        return self.bytes * 8e-6 / self.wanted_s if self.wanted_s else 0.0


@dataclass
class _Piece:
    """A run of intervals of one connection in which data was wanted."""

    begin: int
    end: int
    bytes: int


def _pieces(looks: Sequence[Look], cookie: int) -> list[_Piece]:
    """Interval i lies between looks i - 1 and i. A connection that is new at look i has received all of it in interval i."""
    pieces: list[_Piece] = []
    nothing = Counted(0, 0, 0, 0.0)
    before = nothing
    asked: int | None = None  # first interval since the latest data in which this host asked for something
    unread = False
    latest = 0  # bytes in the latest interval with data
    for place in range(1, len(looks)):
        now = looks[place].sockets.get(cookie)
        if now is None:
            if before is not nothing:
                break  # closed
            continue
        got, sent = now.received - before.received, now.sent - before.sent
        if got > 0:
            gap = looks[place - 1].at - looks[pieces[-1].end].at if pieces else 0.0
            stalled = pieces and asked is None and not unread and latest >= FLOWING and gap <= LONGEST_STALL
            if pieces and (pieces[-1].end == place - 1 or stalled):
                pieces[-1].end = place
                pieces[-1].bytes += got
            else:
                pieces.append(_Piece(place if asked is None else asked, place, got))
            asked, unread, latest = None, False, got
        elif sent >= ASKS and asked is None:
            asked = place
        unread = unread or now.unread >= UNREAD
        before = now
    return pieces


def judge(looks: Sequence[Look], known: Collection[int]) -> Demand:
    """Of the connections that are not in `known`: those that were there before the block keep what was decided when they began."""
    cookies = sorted({cookie for look in looks for cookie in look.sockets} - set(known))
    wanted: set[int] = set()
    served: set[int] = set()
    total = flows = 0
    weight = weighted = 0.0
    for cookie in cookies:
        counted = [piece for piece in _pieces(looks, cookie) if piece.bytes >= BULK]
        if not counted:
            continue
        flows += 1
        size = sum(piece.bytes for piece in counted)
        total += size
        for piece in counted:
            wanted.update(range(piece.begin, piece.end + 1))
        seen = [(look.sockets[cookie] if cookie in look.sockets else None) for look in looks]
        for place in range(1, len(looks)):
            now, before = seen[place], seen[place - 1]
            if now and now.received > (before.received if before else 0):
                served.add(place)
        rtt = next((one.rtt_ms for one in reversed(seen) if one and one.rtt_ms), 0.0)
        if rtt:
            weight, weighted = weight + size, weighted + size * rtt

    def span(place: int) -> float:
        return looks[place].at - looks[place - 1].at

    stalls, run = [0.0], 0.0
    for place in sorted(wanted):
        if place in served:
            run = 0.0
            continue
        run = span(place) + (run if place - 1 in wanted else 0.0)
        stalls.append(run)
    return Demand(total, sum(map(span, wanted)), sum(span(place) for place in wanted - served), max(stalls), flows, weighted / weight if weight else None)
