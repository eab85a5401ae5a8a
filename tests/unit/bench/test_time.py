"""Which time a bench runs in when nobody says, and what is told of it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from tandem_bench import catalogue, cli, virtual
from tandem_bench.model import Arm, Bench, Case, Measurement, Metric, Options, Run
from tandem_lab import kernels
from tandem_lab import virtual_machine as machine

SIMULATED = {"ecn-grid", "ecn-uplink", "ecn-many", "carrier-sense", "mobility", "fairness", "static-tail", "minislot-1", "minislot-2", "minislot-3", "switching", "switching-users", "visits", "cla"}
OF_THE_MACHINE = {"overhead", "recorder", "latency", "scale", "idle", "freeze-requests", "estimator"}
KERNEL = kernels.Kernel("c", "r", "6.1.1-1", "6.1.1", Path("/nowhere"))


class InTheLab(Bench):
    name, summary = "fake", "made-up values"

    def cases(self, quick: bool) -> list[Case]:
        return [Case("c", (Arm("plain", "plain"),), (Metric("goodput", "Mb/s"),), 1)]

    @contextmanager
    def session(self, case: Case, seed: int, options: Options):
        yield None

    def measure(self, session, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return Measurement({"goodput": 1.0})


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find", lambda: KERNEL)
    monkeypatch.setattr(machine, "requirements", lambda: KERNEL)


@pytest.fixture
def not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_USER", raising=False)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The times that a made-up bench was run in."""
    times: list[str] = []

    def in_a_guest(bench, cases, seed, options, runs: list[Run], listen, jobs: int, arguments) -> None:
        times.append("virtual")
        runs.append(Run("c", "plain", seed, 0, 1.0, {"goodput": 1.0}))

    monkeypatch.setitem(catalogue.CATALOGUE, "fake", "fake")
    monkeypatch.setattr(catalogue, "load", lambda name: InTheLab())
    monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
    monkeypatch.setattr(virtual, "execute", in_a_guest)
    monkeypatch.setattr(cli, "execute", lambda bench, cases, seed, options, runs, *_: (times.append("real"), runs.append(Run("c", "plain", seed, 0, 1.0, {"goodput": 1.0}))))
    return times


@pytest.mark.parametrize("name", catalogue.CATALOGUE)
def test_with_a_kernel_only_what_needs_the_machine_itself_stays_in_real_time(built: None, name: str) -> None:
    bench = catalogue.load(name)
    time, why = cli.default_time(bench)
    assert time == ("real" if name in SIMULATED | OF_THE_MACHINE else "virtual")
    assert bool(why) == (name in OF_THE_MACHINE) and bench.needs_real_time in why


@pytest.mark.parametrize("name", catalogue.CATALOGUE)
def test_without_one_every_bench_runs_in_real_time(not_built: None, name: str) -> None:
    time, why = cli.default_time(catalogue.load(name))
    assert time == "real" and ("tools/lab/kernel build" in why) == (name not in SIMULATED | OF_THE_MACHINE)


def test_virtual_time_is_the_default_where_its_kernel_is(built: None, ran: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fake", "--markdown", str(tmp_path / "page.md")]) == 0
    assert ran == ["virtual"] and "real time" not in capsys.readouterr().err
    assert "- time: virtual" in (tmp_path / "page.md").read_text()


def test_without_its_kernel_the_bench_runs_and_says_how_to_build_it(not_built: None, ran: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fake", "--markdown", str(tmp_path / "page.md")]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "real time" in line]
    assert ran == ["real"] and len(told) == 1 and "tools/lab/kernel build" in told[0]
    assert "- time: real" in (tmp_path / "page.md").read_text()


def test_the_word_on_the_command_line_wins(built: None, ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fake", "--time", "real"]) == 0
    assert cli.main(["fake", "--time", "virtual", "--jobs", "3"]) == 0
    assert ran == ["real", "virtual"] and "real time" not in capsys.readouterr().err


def test_several_at_a_time_need_virtual_time_or_a_bench_that_waits(built: None, ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fake", "--jobs", "2"]) == 0
    assert cli.main(["fake", "--jobs", "2", "--time", "real"]) == 2
    assert ran == ["virtual"] and "any number with --time virtual" in capsys.readouterr().err


# -- results that cannot be written


def fill(disk: Path) -> None:
    with open(disk / "filler", "wb", buffering=0) as filler:
        with pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))


@pytest.mark.parametrize("option", ["--json", "--markdown", "--plot"])
def test_a_disk_that_is_full_keeps_the_old_result_and_nothing_half_written(small_disk: Path, ran: list[str], capsys: pytest.CaptureFixture[str], option: str) -> None:
    name = small_disk / {"--json": "r.json", "--markdown": "r.md", "--plot": "fake.png"}[option]
    name.write_text("old")
    fill(small_disk)
    there = sorted(small_disk.iterdir())
    assert cli.main(["fake", "--time", "real", option, str(small_disk if option == "--plot" else name)]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "No space left" in line]
    assert len(said) == 1 and str(small_disk) in said[0]
    assert name.read_text() == "old" and sorted(small_disk.iterdir()) == there


def test_other_results_are_written_all_the_same(small_disk: Path, ran: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(small_disk)
    assert cli.main(["fake", "--time", "real", "--json", str(small_disk / "r.json"), "--markdown", str(tmp_path / "r.md")]) == 1
    assert f"{small_disk}/r.json" in capsys.readouterr().err and (tmp_path / "r.md").exists()


def test_a_program_killed_for_want_of_mappings_is_known_by_the_kernels_words() -> None:
    said = b"do_syscall_stub : ret = -12\nUML ran out of memory on the host side! This can happen due to a memory limitation or vm.max_map_count has been reached.\n"
    assert machine.mappings_ran_out(said) and not machine.mappings_ran_out(b"Run /run/tandem-virtual/init as init process\n")
    assert "sysctl -w vm.max_map_count=1048576" in str(machine.NoMappings(65530))
