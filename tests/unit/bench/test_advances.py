"""What ACKs told a server at once, from made-up captures there."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tandem_bench import advances, capture
from tandem_bench.capture import Frame

SEGMENT = 1448
ISN = (1 << 32) - 5 * SEGMENT  # the numbers wrap under way


def number(segment: int) -> int:
    return (ISN + segment * SEGMENT) % (1 << 32)


def data(time: float, segment: int, count: int = 1) -> Frame:
    return Frame(time, 80, 40000, number(segment), 1, count * SEGMENT, 0x10, None, ())


def ack(time: float, segment: int, *blocks: tuple[int, int]) -> Frame:
    return Frame(time, 40000, 80, 1, number(segment), 0, 0x10, None, tuple((number(left), number(right)) for left, right in blocks))


def told(*acks: Frame) -> list[float]:
    return [size / SEGMENT for _, size in advances.watch([data(0, 0, 20), *acks]).advances]


def test_an_ack_tells_what_its_number_is_ahead() -> None:
    assert told(ack(1, 2), ack(1.1, 2), ack(1.2, 12), ack(1.3, 5)) == [2, 10]


def test_what_a_block_told_the_number_over_it_does_not_tell_again() -> None:
    assert told(ack(1, 2), ack(1.1, 2, (5, 6)), ack(1.2, 2, (8, 9), (5, 6)), ack(1.3, 2, (5, 9)), ack(1.4, 10)) == [2, 1, 1, 2, 4]


def test_blocks_that_meet_or_overlap_are_one() -> None:
    assert told(ack(1, 1, (2, 4)), ack(1.1, 1, (4, 6)), ack(1.2, 1, (3, 9)), ack(1.3, 1, (3, 8)), ack(1.4, 5), ack(1.5, 9)) == [3, 2, 3, 1]


def test_a_duplicate_that_is_reported_tells_nothing() -> None:
    assert told(ack(1, 4), ack(1.1, 4, (2, 3))) == [4]


def test_what_leaves_within_a_millisecond_is_one_burst() -> None:
    server = advances.watch([data(0, 0, 12), ack(1, 2), ack(1.0004, 6), data(1.0005, 12, 3), data(1.0009, 15), ack(1.5, 9), data(1.5001, 12), data(1.502, 16)])
    found = advances.details(server)
    assert found["largest_advance"] == 4 and found["burst_after"] == 4
    assert found["told_at_once"] == 6 and found["sent_at_once"] == 12
    assert found["repeated_segments"] == 1 and found["acks"] == 3


def test_of_several_connections_the_one_that_sent_most_counts() -> None:
    other = Frame(0, 80, 50000, 7, 1, 100, 0x10, None, ())
    assert advances.watch([other, data(0, 0, 3), ack(1, 3)]).highest == 3 * SEGMENT


@pytest.mark.parametrize("flags", [0x04, 0x14, 0x11])
def test_with_the_end_of_the_download_nothing_is_told_any_more(flags: int) -> None:
    end = Frame(1.1, 40000, 80, 1, number(9), 0, flags, None, ())
    assert told(ack(1, 2), end, ack(1.2, 12)) == [2]


def test_nothing_sent_is_nothing_told() -> None:
    assert advances.details(advances.watch([ack(1, 3)]))["largest_advance"] == 0


TIMESTAMPS = bytes([1, 1, 8, 10]) + struct.pack(">II", 77, 66)


@pytest.mark.parametrize("options, tsval, sack", [
    (TIMESTAMPS + bytes([1, 1, 5, 18]) + struct.pack(">4I", 1, 2, 3, 4), 77, ((1, 2), (3, 4))),
    (bytes([1, 1, 5, 10]) + struct.pack(">II", 1, 2) + bytes([1, 1, 5, 18]), None, ((1, 2),)),  # an option that its end cuts
])
def test_a_capture_says_sack_blocks_as_far_as_they_go(tmp_path: Path, options: bytes, tsval: int | None, sack: tuple[tuple[int, int], ...]) -> None:
    tcp = struct.pack(">HHIIBBHHH", 40000, 80, 9, 8, (5 + len(options) // 4) << 4, 0x10, 0, 0, 0) + options
    frame = bytes(12) + b"\x08\x00" + bytes([0x45, 0]) + struct.pack(">H", 20 + len(tcp)) + bytes(5) + bytes([6]) + bytes(10) + tcp
    path = tmp_path / "capture"
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 128, 1) + struct.pack("<IIII", 5, 250000, len(frame), len(frame)) + frame)
    one, = capture.frames(path)
    assert one == Frame(5.25, 40000, 80, 9, 8, 0, 0x10, tsval, sack)
