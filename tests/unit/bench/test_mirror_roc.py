"""The classifier's evaluation: reading the flight recorder, matching decisions with the truth about losses, the curve."""

from __future__ import annotations

import struct

import pytest

from tandem_bench import episodes, recording, roc_pictures, table
from tandem_bench.benches import mirror_roc
from tandem_bench.model import Run
from tandem_bench.recording import Ack
from tandem_bench.statistics import figure_of, judge
from tandem_lab.losses import Loss

MSS = 1000
SERVER, PORT = "10.77.10.1", 4000


# -- the flight recorder


def block(kind: int, body: bytes) -> bytes:
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def section(offset_ns: int) -> bytes:
    return block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + option(1, f"tandem trace\nseed: 1\nrealtime offset ns: {offset_ns}".encode()) + option(0, b""))


def packet(at_ns: int, number: int, comment: str, *, sack: tuple[tuple[int, int], ...] = (), outbound: bool = True, v6: bool = False, kept: int = 0, was: str = "") -> bytes:
    options = struct.pack(">BBBBII", 1, 1, 8, 10, 7, 8)
    if sack:
        options += struct.pack(">BBBB", 1, 1, 5, 2 + 8 * len(sack)) + b"".join(struct.pack(">II", *pair) for pair in sack)
    tcp = struct.pack(">HHIIBBHHH", PORT, 80, 1, number % 2**32, (20 + len(options)) // 4 << 4, 16, 0, 0, 0) + options
    if v6:
        ip = struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + b"\1" * 16 + b"\xfd\x77" + b"\0" * 13 + b"\1"
    else:
        ip = struct.pack(">BBHIBBHII", 0x45, 0, 20 + len(tcp), 0, 64, 6, 0, 0x0A4D0102, 0x0A4D0A01)
    content = (ip + tcp)[:kept or None]
    return block(6, struct.pack("<IIIII", 0, at_ns >> 32, at_ns & 0xFFFFFFFF, len(content), len(ip + tcp)) + content + b"\0" * (-len(content) % 4)
                 + option(1, comment.encode()) + (option(1, was.encode()) if was else b"") + option(2, struct.pack("<I", 2 if outbound else 1)) + option(0, b""))


@pytest.mark.parametrize("v6", [False, True])
def test_recording_gives_the_clients_packets_as_they_were_with_the_monotonic_time(v6: bool) -> None:
    offset = 1_700_000_000_000_000_000
    at = offset + 5_000_000_000
    data = section(offset) + packet(at, 100, "passed: freeze: nothing to do", sack=((50, 90), (200, 300)), v6=v6) \
        + packet(at + 1, 100, "passed", outbound=False, v6=v6) + packet(at + 2, 401, "edited: mirror: hidden: x", v6=v6, was=f"was: wifi {(40 if v6 else 20) + 8}:00000190") \
        + packet(at + 2, 300, "observed", v6=v6) + packet(at + 3, 500, "injected: mirror: kept: y", v6=v6) + packet(at, 1, "passed", kept=30)
    first, second, injected = recording.acks(data)
    assert (injected.ack, injected.comment) == (500, "injected: mirror: kept: y")
    assert first.at == pytest.approx(5.0, abs=1e-6) and (first.ack, first.port, first.server_port) == (100, PORT, 80)
    assert first.server == ("fd77::1" if v6 else SERVER)
    assert first.sacked == ((200, 300),)  # the other one reports a duplicate
    assert (second.ack, second.comment) == (400, "edited: mirror: hidden: x")
    assert recording.acks(data[:-7]) == [first, second, injected]
    with pytest.raises(recording.Unreadable):
        recording.acks(b"{}" * 40)
    with pytest.raises(recording.Unreadable, match="no OFFSET:BYTES"):
        recording.acks(section(offset) + packet(at, 1, "edited: x", was="was: wifi 8-00"))


# -- matching


def ack(number: int, comment: str = "passed", *, hole: bool = False, at: float = 0.0, port: int = PORT) -> Ack:
    number %= 2**32
    return Ack(at, SERVER, 80, port, number, (((number + MSS) % 2**32, (number + 9 * MSS) % 2**32),) if hole else (), 16, comment)


def loss(seq: int, reason: str = "loss", port: int = PORT, **other) -> Loss:
    fields = {"at": 0.0, "reason": reason, "link": "wifi", "down": True, "source": SERVER, "source_port": 80, "destination": "10.77.1.2", "destination_port": port,
              "seq": seq % 2**32, "ack": 1, "length": MSS, "flags": 16, "tsval": 0, "queued": 0, "queued_bytes": 0}
    return Loss(**{**fields, **other})


HIDDEN = "edited, before: mirror: hidden: the queue was empty"
KEPT = "passed: mirror: kept: the queue was filling"
BASE = 2**32 - 3500  # sequence numbers wrap within each example


def verdicts(acks: list[Ack], losses: list[Loss]) -> list[tuple[bool, str]]:
    return [(episode.hidden, episode.truth) for episode in episodes.judged(acks, losses)]


def test_a_decision_speaks_for_the_range_from_the_first_hole_to_the_recovery_point() -> None:
    acks = [ack(BASE), ack(BASE + MSS), ack(BASE + 2 * MSS, hole=True), ack(BASE + 2 * MSS, hole=True), ack(BASE + 4 * MSS, hole=True), ack(BASE + 8 * MSS, HIDDEN)]
    assert verdicts(acks, [loss(BASE + 2 * MSS), loss(BASE + 4 * MSS)]) == [(True, "random")]
    assert verdicts(acks, [loss(BASE + 2 * MSS), loss(BASE + 4 * MSS, "queue_full")]) == [(True, "congestion")]  # mixed is congestion
    assert verdicts(acks, [loss(BASE + 2 * MSS), loss(BASE + 4 * MSS, "marked")]) == [(True, "congestion")]
    assert verdicts(acks, []) == [(True, "none")]
    found, = episodes.judged(acks, [loss(BASE + 2 * MSS)])
    # Whole again was last said at the first of the two repeated ones' predecessor.
    assert (found.begin, found.end, found.random_losses) == ((BASE + MSS) % 2**32, (BASE + 8 * MSS) % 2**32, 1)
    assert found.why == "mirror: hidden: the queue was empty"


def test_back_to_back_episodes_share_no_loss() -> None:
    acks = [ack(BASE), ack(BASE, hole=True), ack(BASE + 3 * MSS, HIDDEN, hole=True), ack(BASE + 3 * MSS, hole=True), ack(BASE + 6 * MSS, KEPT)]
    assert verdicts(acks, [loss(BASE), loss(BASE + 3 * MSS, "queue_full")]) == [(True, "random"), (False, "congestion")]
    assert verdicts(acks, [loss(BASE, "queue_full"), loss(BASE + 3 * MSS)]) == [(True, "congestion"), (False, "random")]


def test_losses_that_no_decision_speaks_for_were_not_hidden() -> None:
    acks = [ack(BASE), ack(BASE, hole=True), ack(BASE + 3 * MSS), ack(BASE + 4 * MSS), ack(BASE + 5 * MSS, hole=True), ack(BASE + 7 * MSS, HIDDEN), ack(BASE + 8 * MSS)]
    losses = [loss(BASE), loss(BASE + MSS), loss(BASE + 5 * MSS), loss(BASE + 7 * MSS)]  # the last one without a duplicate acknowledgement: a tail
    found = episodes.judged(acks, losses)
    assert [(episode.why, episode.truth, episode.random_losses) for episode in sorted(found, key=lambda episode: (episode.begin - BASE) % 2**32)] == [
        (episodes.UNDECIDED, "random", 2), ("mirror: hidden: the queue was empty", "random", 1), (episodes.UNDECIDED, "random", 1)]
    assert episodes.samples(found, "random").count(0) == 2 and episodes.samples(found, "congestion") == []
    # What has not been repaired by the end of the recording is no episode yet.
    assert verdicts([ack(BASE), ack(BASE, hole=True)], [loss(BASE)]) == []


def test_connections_and_directions_are_told_apart() -> None:
    acks = [ack(BASE), ack(BASE, port=PORT + 1), ack(BASE + 3 * MSS, HIDDEN), ack(BASE + 3 * MSS, KEPT, port=PORT + 1)]
    losses = [loss(BASE, "queue_full", port=PORT + 1), loss(BASE), loss(BASE + MSS, "queue_full", down=False), loss(BASE + MSS, "queue_full", length=0)]
    assert sorted(verdicts(acks, losses)) == [(False, "congestion"), (True, "random")]


def test_what_a_sender_is_left_alone_with_is_no_sample() -> None:
    acks = [ack(BASE), ack(BASE + 3 * MSS, HIDDEN), ack(BASE + 3 * MSS, hole=True), ack(BASE + 6 * MSS, "passed: mirror: kept, this sender is left alone")]
    found = episodes.judged(acks, [loss(BASE), loss(BASE + 3 * MSS)])
    assert [episode.why == episodes.LEFT_ALONE for episode in found] == [False, True]
    assert episodes.samples(found, "random") == [1]


def test_a_repeated_decision_counts_once() -> None:
    acks = [ack(BASE), ack(BASE + 3 * MSS, HIDDEN), ack(BASE + 3 * MSS, HIDDEN)]
    assert verdicts(acks, [loss(BASE)]) == [(True, "random")]


# -- the bench


def test_goals_are_on_all_episodes_together_and_the_curve_on_all_swept_cells() -> None:
    cases = mirror_roc.BENCH.cases(False)
    judged = [case for case in cases if not case.name.startswith("sweep, ")][:2]
    swept = [case for case in cases if case.name.startswith("sweep, ")]

    def run(case: str, arm: str, random: list[int], congestion: list[int]) -> Run:
        return Run(case, arm, 1, 0, 1.0, {}, {"random_hidden": random, "congestion_hidden": congestion})

    runs = [run(judged[0].name, "without radio", [1] * 99, [0]), run(judged[1].name, "without radio", [0], [1] + [0] * 18)]
    (case, pooled), = [row for row in mirror_roc.BENCH.summarise(judged, runs) if row[0].name == "all cells"]
    told = {verdict.goal.sentence: verdict for verdict in (judge(case, goal, pooled) for goal in case.goals)}
    assert told[">= 95 % of random hidden"].value == pytest.approx(0.99) and told["<= 5 % of congestion hidden"].value == pytest.approx(0.05)
    assert told["<= 5 % of congestion hidden"].word == "undecided", "one of twenty is no proof of 5 %"
    assert told[">= 98 % of random hidden, with radio"].word == "no result"

    runs = [run(swept[0].name, "with radio, threshold 0.25", [1, 1, 0], [0]), run(swept[1].name, "with radio, threshold 0.25", [1], [1]),
            run(swept[0].name, "with radio, threshold 1", [0], [0])]
    assert roc_pictures.curve(cases, runs, "with radio", mirror_roc.RANDOM, mirror_roc.CONGESTION) == [(0.25, 0.5, 0.75), (1.0, 0.0, 0.0)]
    rows = {case.name: (case, pooled) for case, pooled in mirror_roc.BENCH.summarise(swept, runs)}
    assert [run.arm for run in rows["threshold 0.25, all swept cells"][1]] == ["with radio"] * 2 and not rows["threshold 0.1, all swept cells"][1]
    assert figure_of(rows["threshold 0.25, all swept cells"][1], "threshold 0.25, all swept cells", "with radio", mirror_roc.RANDOM) == 0.75
    _, table_rows = table.result_rows(mirror_roc.BENCH, [*swept, rows["threshold 0.25, all swept cells"][0]], rows["threshold 0.25, all swept cells"][1], [])
    assert [row[0] for row in table_rows] == ["threshold 0.25, all swept cells: random episodes hidden", "threshold 0.25, all swept cells: congestion episodes hidden"]
    assert roc_pictures.curve(cases, runs, "without radio", mirror_roc.RANDOM, mirror_roc.CONGESTION) == []
