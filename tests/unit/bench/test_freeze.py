"""The benches of blackouts: reading captures, judging blackouts, the choice of cells, samples of several rounds together, parallel rounds."""

from __future__ import annotations

import itertools
import os
import signal
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tandem_bench import blackouts, capture, parallel, table
from tandem_bench.benches import freeze, freeze_random
from tandem_bench.model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from tandem_bench.statistics import figure_of, judge
from tandem_lab.errors import BadInput

MSS = 1000


# -- captures


def frame(seq: int, length: int, *, port: int = 4000, tsval: int | None = 7, syn: bool = False, v6: bool = False) -> bytes:
    options = struct.pack(">BBBBII", 1, 1, 8, 10, tsval, 0) if tsval is not None else b""
    tcp = struct.pack(">HHIIBBHHH", 80, port, seq % 2**32, 0, (20 + len(options)) // 4 << 4, 2 if syn else 16, 0, 0, 0) + options
    if v6:
        return b"\0" * 12 + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, len(tcp) + length, 6, 64) + b"\0" * 32 + tcp
    return b"\0" * 12 + b"\x08\0" + struct.pack(">BBHIBBHII", 0x45, 0, 20 + len(tcp) + length, 0, 64, 6, 0, 0, 0) + tcp


def written(path: Path, frames: list[tuple[float, bytes]], cut: int = 0) -> Path:
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 128, 1)
    for time, content in frames:
        data += struct.pack("<IIII", int(time), round(time % 1 * 1e6), len(content), len(content) + MSS) + content
    path.write_bytes(data[:len(data) - cut])
    return path


@pytest.mark.parametrize("v6", [False, True])
def test_a_hole_holds_back_what_came_behind_it(tmp_path: Path, v6: bool) -> None:
    base = 2**32 - 1500  # the sequence numbers wrap within the download
    frames = [(1.0, frame(base - 1, 0, syn=True, v6=v6)), (1.1, frame(base, MSS, v6=v6)), (1.2, frame(base + 2 * MSS, MSS, v6=v6)),
              (1.3, frame(base + 3 * MSS, MSS, v6=v6)), (1.4, frame(base + MSS, MSS, v6=v6)), (1.5, frame(base + MSS, MSS, v6=v6)),
              (1.6, frame(base + 4 * MSS, 0, v6=v6))]
    flow, = capture.read(written(tmp_path / "c", frames))
    assert [(round(time, 3), count) for time, count in flow.progress] == [(1.1, 1000), (1.4, 4000)]
    assert len(flow.arrivals) == 5 and flow.repeated_bytes == 1000
    assert [(round(time, 3), count) for time, count in flow.first_arrivals] == [(at, 1000) for at in (1.1, 1.2, 1.3, 1.4)]
    assert {tsval for *_, tsval in flow.arrivals} == {7}


def test_connections_are_told_apart_and_a_torn_end_does_no_harm(tmp_path: Path) -> None:
    frames = [(1.0, frame(5, MSS, port=1)), (1.1, frame(9, MSS, port=2, tsval=None)), (1.2, frame(5 + MSS, MSS, port=1))]
    one, two = capture.read(written(tmp_path / "c", frames, cut=3))
    assert (one.in_order, two.in_order) == (1000, 1000)
    assert two.arrivals[0][3] is None
    with pytest.raises(capture.Unreadable, match="not a"):
        capture.read(written(tmp_path / "d", [], cut=20))


# -- blackouts


def steady(until: float, skip: tuple[float, float] = (9e9, 9e9), delay: float = 0.01, resume: float = 0.0) -> capture.Flow:
    """1000 bytes every 10 ms, none between, each sent `delay` before it arrives; what resumes does so `resume` later."""
    flow, seq = capture.Flow(1), 0
    for number in range(int(until * 100)):
        time = number / 100
        if not skip[0] <= time < skip[1] + resume:
            flow.take(time, seq, MSS, False, 50_000 + round(1e3 * (time - delay)))
            seq += MSS
    return flow


def judged(flow: capture.Flow, blackout: blackouts.Blackout, end: float, buffered: bool = False) -> dict:
    delivered = blackouts.Delivered([flow])
    return blackouts.after([flow], delivered, [blackout], end, 0.02, buffered, 300_000)[0]


def test_first_data_and_share_are_counted_from_link_up() -> None:
    found = judged(steady(10, (2.0, 3.0), resume=0.5), blackouts.Blackout(2.0, 3.0), 10)
    assert found["first_ms"] == pytest.approx(500, abs=1) and found["data_ms"] == found["first_ms"]
    assert found["data_rtts"] == pytest.approx(25, abs=0.1)
    assert found["share"] == pytest.approx(2.5 / 3, abs=0.01) and not found["censored"]
    assert abs(found["bytes_any"] - found["bytes"]) <= MSS


def test_what_the_access_point_had_held_back_is_not_fresh() -> None:
    flow = steady(2.0)
    for number in range(5):  # sent before link-up at 3.0, arrives behind it
        flow.take(3.001 + number / 1000, flow.in_order, MSS, False, 50_000 + 2100)
    flow.take(3.025, flow.in_order, MSS, False, 50_000 + 3015)
    found = judged(flow, blackouts.Blackout(2.0, 3.0), 10, buffered=True)
    assert found["first_ms"] == pytest.approx(1, abs=0.1) and found["fresh_ms"] == pytest.approx(25, abs=0.1)
    assert found["data_ms"] == found["fresh_ms"] and found["held_ms"] == pytest.approx(5, abs=0.1)
    cell = freeze.Cell(2, "cubic", "buffer")
    assert freeze._against_goal(cell, found, 1.2, 10) == pytest.approx(25 / 15, abs=0.01)
    assert freeze._against_goal(replace(cell, mode="drop"), found, 1.2, 10) == pytest.approx(25 / 12.4, abs=0.01)
    assert judged(flow, blackouts.Blackout(2.0, 3.0), 10)["data_ms"] == found["first_ms"]


def test_a_hole_that_is_filled_late_brings_no_more_than_the_link_did() -> None:
    flow = steady(2.0)
    hole = flow.in_order
    for number in range(1, 101):  # behind the hole, before the blackout
        flow.take(2.0 + number / 1000, hole + number * MSS, MSS, False, 52_000)
    flow.take(4.0, hole, MSS, False, 53_990)
    found = judged(flow, blackouts.Blackout(2.5, 3.0), 10)
    assert (found["bytes"], found["bytes_any"]) == (101 * MSS, MSS) and found["share"] == pytest.approx(MSS / 300_000, abs=1e-4)


def test_a_download_that_never_resumes_counts_as_waiting_until_the_end() -> None:
    found = judged(steady(2.0), blackouts.Blackout(2.0, 3.0), 8.0)
    assert found["censored"] and found["data_ms"] == pytest.approx(5000) and found["share"] == 0


def test_data_sent_before_a_second_blackout_is_not_counted_for_the_first() -> None:
    flow = steady(10, (2.0, 6.0))
    delivered = blackouts.Delivered([flow])
    both = blackouts.after([flow], delivered, [blackouts.Blackout(2.0, 3.0), blackouts.Blackout(5.0, 6.0)], 10, 0.02, False, 300_000)
    assert both[0]["censored"] and both[0]["data_ms"] == pytest.approx(2000)
    assert not both[1]["censored"] and both[1]["data_ms"] < 11


def test_capacity_is_that_of_the_median_window_and_stalls_are_found() -> None:
    delivered = blackouts.Delivered([steady(20, (10.0, 10.5))])
    assert blackouts.capacity(delivered, 2, 20) == pytest.approx(300_000, rel=0.01)
    assert delivered.longest_stall(1, 19) == pytest.approx(0.51, abs=0.011)
    assert delivered.series(1, 3, 0.5) == [0, 50_000, 100_000, 150_000, 200_000]


# -- cells


def test_levels_of_every_two_factors_meet() -> None:
    cells = freeze.full_cells()
    factors = ("rtt_ms", "congestion", "mode", "window", "flows", "detection")
    for one, other in itertools.combinations(factors, 2):
        met = {(getattr(cell, one), getattr(cell, other)) for cell in cells}
        levels = [{getattr(cell, name) for cell in cells} for name in (one, other)]
        assert met == set(itertools.product(*levels)), (one, other)
    for factor in factors[2:]:
        counts = [sum(getattr(cell, factor) == level for cell in cells) for level in {getattr(cell, factor) for cell in cells}]
        assert max(counts) == min(counts), factor
    assert {15.0 in cell.durations for cell in cells if cell.rtt_ms == 200} == {True, False}


def test_blackouts_keep_their_lengths_and_distances_in_any_order() -> None:
    cell = freeze.Cell(50, "cubic", durations=freeze.LONG)
    plans = [cell.schedule(seed) for seed in range(5)]
    assert len({tuple(length for _, length in plan) for plan in plans}) == 5
    for seed, plan in enumerate(plans):
        assert sorted(length for _, length in plan) == sorted(freeze.LONG) and plan == cell.schedule(seed)
        for (start, length), (following, _) in zip(plan, plan[1:]):
            assert following >= start + length + 5.0
        assert cell.length(seed) >= plan[-1][0] + plan[-1][1] + blackouts.WINDOW


def test_settings_narrow_the_cells_and_name_what_is_wrong() -> None:
    cases = freeze.BENCH.cases(False)
    one = freeze.BENCH.configured(cases[:12], {"rtt_ms": "30", "congestion": "bbr", "mode": "drop", "window": "queue", "flows": "2", "detection": "carrier"})
    assert [case.name for case in one] == ["30 ms bbr, drop, queue, 2 flows, carrier"]
    for key, value in (("mode", "lost"), ("flows", "x"), ("durations", "1,-2"), ("gap", "0")):
        with pytest.raises(BadInput, match=f"{key}={value}"):
            freeze.BENCH.configured(cases, {key: value})


def test_a_batch_follows_from_its_seed() -> None:
    one, again, other = (freeze_random.Batch.drawn(seed, 40, 18.0) for seed in (4, 4, 5))
    assert one == again != other
    assert all(100_000 <= fetch.size <= 3_000_000 for fetch in one.fetches)
    drawn = [freeze_random.Batch.drawn(seed, 40, 18.0) for seed in range(1, 26)]
    assert {batch.strategy for batch in drawn} == set(freeze_random.STRATEGIES)
    assert {batch.radio for batch in drawn} == {True, False}
    assert len(drawn) * 40 == 1000


# -- samples of several rounds


POOLED = Metric("late", "ms", 1, "times", "p95")
PLAIN, AGAIN, TANDEM = Arm("plain", "plain"), Arm("again"), Arm("tandem", "tandem")


def sampled(arm: str, *rounds: list[float]) -> list[Run]:
    return [Run("c", arm, seed, 0, 1.0, {"late": max(times)}, {"times": times}) for seed, times in enumerate(rounds, 1)]


def test_samples_of_all_rounds_make_one_figure() -> None:
    runs = sampled("tandem", [1.0] * 19, [100.0]) + sampled("plain", [2.0] * 10, [2.0] * 10)
    assert figure_of(runs, "c", "tandem", POOLED) == pytest.approx(5.95)
    assert figure_of(runs, "c", "tandem", replace(POOLED, statistic="mean")) == pytest.approx(5.95)
    assert figure_of(runs, "c", "tandem", replace(POOLED, statistic="sum")) == pytest.approx(119)
    assert figure_of(runs, "c", "nobody", POOLED) is None
    case = Case("c", (PLAIN, TANDEM), (POOLED,), 2)
    assert not judge(case, Goal("tandem", "<=", 5.9), runs).met and judge(case, Goal("tandem", "<=", 6.0), runs).met
    ratio = judge(case, Goal("tandem", "<=", 3.0, over="plain"), runs)
    assert ratio.met and ratio.value == pytest.approx(2.975) and not ratio.claimed and ratio.note == "20 samples: no interval", "one sample is beyond the p95"
    many = sampled("tandem", *[[1.0 + 0.01 * place for place in range(20)]] * 10) + sampled("plain", *[[2.0] * 20] * 10)
    ratio = judge(case, Goal("tandem", "<=", 0.7, over="plain"), many)
    assert ratio.word == "met" and ratio.ci and ratio.ci[0] <= ratio.value <= ratio.ci[1]
    assert judge(case, Goal("tandem", "<=", ratio.value, over="plain"), many).word == "undecided"
    assert not judge(case, Goal("nobody", "<=", 6.0), runs).met
    assert "'2.0', '6.0'" in str(table.result_rows(Bench(), [case], runs, []))


def test_resolution_of_samples_is_that_of_equal_arms() -> None:
    spread = [9.0 + 0.01 * number for number in range(400)]
    runs = sampled("plain", spread) + sampled("again", spread) + sampled("tandem", [value * 1.005 for value in spread])
    case = Case("c", (PLAIN, AGAIN, TANDEM), (POOLED,), 1)
    verdict = judge(case, Goal("tandem", "<=", 1.0, over="plain", noise="again"), runs)
    assert verdict.met and verdict.within_resolution and 0.005 < (verdict.resolution or 0) < 0.02
    assert not judge(case, Goal("tandem", "<=", 1.0, over="plain", noise="again", tolerance_cap=0.001), runs).met


# -- rounds at the same time


class Parallel(Bench):
    name = "parallel"
    parallel = True

    def measure(self, session, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        if arm.name == "tandem" and seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return Measurement({"late": float(seed)}, {"prefix": options.prefix, "process": os.getpid()})

    def derive(self, case: Case, values):
        return {"derived": {"late": 1.0}} if "plain" in values else {}


def test_parallel_rounds_bring_every_run_also_when_a_process_dies() -> None:
    case = Case("c", (PLAIN, TANDEM), (POOLED,), 4)
    runs: list[Run] = []
    told: list[tuple[str, str]] = []
    parallel.execute(Parallel(), [case], 1, Options(prefix="x-"), runs, lambda what, _case, arm, run: told.append((what, arm.name)), 3)
    measured = [run for run in runs if not run.details.get("derived")]
    assert sorted((run.seed, run.arm) for run in measured) == sorted((seed, arm) for seed in (1, 2, 3, 4) for arm in ("plain", "tandem"))
    lost = [run for run in measured if run.error is not None]
    assert lost and all(run.seed == 2 and "code -9" in run.error for run in lost) and "tandem" in [run.arm for run in lost]
    assert [run.order for run in runs] == list(range(len(runs)))
    assert sum(what == "end" for what, _ in told) == 8
    assert all(run.details["prefix"] in ("x1-", "x2-", "x3-") and run.details["process"] != os.getpid() for run in measured if run.error is None)
    assert sum(bool(run.details.get("derived")) for run in runs) == 3
