"""What must not look like a figure: a round whose arithmetic failed, a seed that lacks a cell, a lab that lost a program, a capture with holes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from tandem_bench import helpers, side_by_side, simulations, table, virtual
from tandem_bench.benches import ecn_grid, latency
from tandem_bench.model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from tandem_bench.runner import execute
from tandem_bench.statistics import judge
from tandem_lab.api import dropped_by_kernel
from tandem_lab.errors import LabError
from tandem_lab.topology import WifiRouter

PLAIN, TANDEM, SUM = Arm("plain", "plain"), Arm("tandem", "tandem"), Arm("sum", "limit")
RATE, MEAN, WORST = Metric("goodput", "Mb/s"), Metric("mean", "%"), Metric("worst", "%")


class Divides(Bench):
    name = "divides"

    def measured_arms(self, case: Case) -> list[Arm]:
        return [PLAIN, TANDEM]

    def measure(self, session, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return Measurement({RATE.name: 0.0 if seed == 1 else 2.0})

    def derive(self, case: Case, values):
        return {SUM.name: {RATE.name: 1 / values[PLAIN.name][RATE.name]}}


def test_a_round_that_cannot_be_derived_takes_no_other_with_it() -> None:
    case = Case("c", (PLAIN, TANDEM, SUM), (RATE,), 2, (Goal(SUM.name, ">=", 0.1),))
    runs: list[Run] = []
    execute(Divides(), [case], 1, Options(), runs, lambda *_: None)
    assert [(run.arm, run.seed, run.error) for run in runs if run.arm == SUM.name] == [(SUM.name, 1, "not derived: float division by zero"), (SUM.name, 2, None)]
    assert sum(run.error is None for run in runs) == 5
    assert table.failures(runs) == ["c / sum, seed 1: not derived: float division by zero"]
    assert judge(case, case.goals[0], runs).failed == 1


def cells() -> list[Case]:
    return [Case(f"cell {number}", (TANDEM,), (RATE,), 2) for number in (1, 2)]


def test_a_seed_that_failed_in_a_cell_is_not_left_out_of_the_row() -> None:
    """The goal was met by the seeds that were left, as if nothing had failed."""
    row = Case("row", (TANDEM,), (MEAN, WORST), 2, (Goal(TANDEM.name, ">=", 90, metric=MEAN.name),))
    runs = [Run("cell 1", TANDEM.name, 1, 0, 0.0, {RATE.name: 95.0}), Run("cell 2", TANDEM.name, 1, 0, 0.0, {RATE.name: 95.0}),
            Run("cell 1", TANDEM.name, 2, 0, 0.0, {RATE.name: 95.0}), Run("cell 2", TANDEM.name, 2, 0, 0.0, error="tandem-sim ended with code 139")]
    made = simulations.together(row, runs, cells(), RATE.name, {MEAN.name: simulations.mean}, WORST)
    assert [(run.seed, run.error is None) for run in made] == [(2, False), (1, True)]
    verdict = judge(row, row.goals[0], made)
    assert verdict.undecided and verdict.failed == 1 and not verdict.met
    assert not table.failures(made), "the cell's own run tells of it"


def test_the_grid_s_row_takes_a_failed_cell() -> None:
    case = ecn_grid.BENCH.cases(True)[0]
    runs = [Run(case.name, arm.name, 1, 0, 0.0, error="x") for arm in case.arms]
    assert all(run.error for _, made in ecn_grid.BENCH.summarise([case], runs) for run in made)


def test_a_program_of_the_lab_that_ended_makes_it_another_lab() -> None:
    helpers.whole(SimpleNamespace(events=lambda: [{"event": "handoff"}]))
    with pytest.raises(LabError, match="others at ap2 ended with code 1"):
        helpers.whole(SimpleNamespace(events=lambda: [{"event": "fault", "what": "others at ap2 ended with code 1"}]))


@pytest.mark.parametrize("words, count", [
    ("12 packets captured\n12 packets received by filter\n0 packets dropped by kernel\n", 0), ("1 packet dropped by kernel\n", 1),
    ("tcpdump: pcap_loop\n9 packets captured\n412 packets dropped by kernel\n", 412), ("", 0)])
def test_a_capture_tells_what_it_lacks(words: str, count: int) -> None:
    assert dropped_by_kernel(words) == count


@pytest.mark.parametrize("firewall, verdict", [("drop", "drop"), ("reject", "reject with tcp reset")])
def test_a_router_that_translates_does_to_its_own_address_what_its_firewall_says(firewall: str, verdict: str) -> None:
    """What translation cannot place is for the router itself. Without a rule there the kernel answered it with an RST where the scenario says "drop"."""
    router = WifiRouter("wan", ["ap1"], [("10.77.1.2", "fd77:1::2")])
    own = router.rules(firewall, True).split("chain own {")[1].split("}\n")[0]
    assert "hook input" in own and own.rstrip().endswith(f"counter name invalid {verdict}")
    assert "chain own" not in router.rules(firewall, False) and "chain own" not in router.rules("none", True)


def validation():
    spec = importlib.util.spec_from_file_location("validate_virtual", Path(__file__).resolve().parents[3] / "tools" / "bench" / "validate_virtual.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_equal_arms_are_compared_in_the_same_round() -> None:
    """Where a run had failed each one was compared with its neighbour's."""
    def run(arm: str, seed: int, value: float | None) -> dict:
        return {"case": "c", "arm": arm, "seed": seed, "value": value, **({"metric": "goodput"} if value is not None else {"error": "late"})}

    document = {"runs": [run("plain", 1, None), run("plain again", 1, 10.0), run("plain", 2, 20.0), run("plain again", 2, 21.0)]}
    assert validation().resolution(document, "c") == pytest.approx(1 - 20 / 21)


def test_a_kept_result_is_of_the_same_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = validation()
    monkeypatch.setattr(checked.provenance, "commit", lambda: {"commit": "aaaa", "dirty": False})
    mine = {"header": {"commit": "aaaa", "dirty": False}}
    assert checked.of_this_commit(Path("x"), mine) is mine
    for other in ({"commit": "bbbb", "dirty": False}, {"commit": "aaaa", "dirty": True}):
        with pytest.raises(SystemExit, match="x: of commit"):
            checked.of_this_commit(Path("x"), {"header": other})


def test_less_delay_than_none_at_all_is_no_ratio() -> None:
    """Both arms below the one without a queue counted as equal, and the goal as met."""
    case = latency.BENCH.cases(True)[0]
    values = {"no queue": {"p50": 50.0, "p99": 90.0}, "accept-all": {"p50": 60.0, "p99": 99.0}, "tandem": {"p50": 61.0, "p99": 100.0}}
    assert latency.BENCH.derive(case, values)["added by tandem"] == {"p50": 11.0, "p99": 10.0}
    with pytest.raises(LabError, match="p99: accept-all adds -1.0 us"):
        latency.BENCH.derive(case, values | {"accept-all": {"p50": 60.0, "p99": 89.0}, "tandem": {"p50": 61.0, "p99": 80.0}})


@pytest.mark.parametrize("why", ["", "the machine's mappings ran out"])
def test_a_round_whose_kernel_ended_processes_of_the_lab_gives_no_figures(why: str) -> None:
    """That was asked of a guest that had not brought every run, alone."""
    case = Case("c", (PLAIN, TANDEM, SUM), (RATE,), 1)

    class Told(side_by_side.Round):
        def look(self) -> bool:
            return False

        def spoilt(self) -> str:
            return why

        def close(self) -> None:
            pass

    def start(*_) -> side_by_side.Round:
        made = Told(case, 1)
        for arm, details in ((PLAIN, {}), (TANDEM, {}), (SUM, {"derived": True})):
            made.hear("end", arm.name, Run("c", arm.name, 1, 0, 1.0, {RATE.name: 3.0}, details))
        return made

    runs: list[Run] = []
    side_by_side.execute(Divides(), [case], 1, runs, lambda *_: None, 1, start)
    assert [(run.arm, run.error or run.values[RATE.name]) for run in runs] == (
        [("plain", why), ("tandem", why)] if why else [("plain", 3.0), ("tandem", 3.0), ("sum", 3.0)])


def test_a_guest_tells_that_mappings_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def result() -> None:
        raise virtual.machine.NoMappings(65530)

    guest = virtual._Guest.__new__(virtual._Guest)
    guest._machine = SimpleNamespace(result=result)
    assert "65530" in guest.spoilt()
    guest._machine = SimpleNamespace(result=lambda: None)
    assert guest.spoilt() == ""
