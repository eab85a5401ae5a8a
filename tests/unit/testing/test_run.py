"""What a full run builds and runs, and where."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Mapping, Sequence

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "testing"))

import run  # noqa: E402
from entries import Entry  # noqa: E402
from progress import Progress  # noqa: E402
from reports import Case, Layer, Tally, Verdict  # noqa: E402


def entry(build: run.Build, name: str, *labels: str, script: bool = False) -> Entry:
    return Entry(name, frozenset(labels), Path("/usr/bin/python3") if script else build.directory / "tests" / name, ())


def entries_of(build: run.Build) -> list[Entry]:
    """As ctest would list them: the sanitizer builds have no entries of the lab."""
    pure = [entry(build, f"{layer}.{kind}", layer, "fast", *more, script=kind == "script")
            for layer in run.PURE for kind, more in (("program", ()), ("two_threads", ("tsan",)), ("script", ()))]
    return pure + [entry(build, f"{layer}.downloads", layer, script=True) for layer in ("lab", "vm") if build.preset == "dev"]


def test_a_full_run_runs_each_entry_once_and_those_with_two_threads_twice() -> None:
    ran: list[str] = []
    for build in run.plan(["all"]):
        mine, _ = run.share(build, entries_of(build))
        for labels in build.layers.values():
            ran += [one.name for one in mine if one.labels & set(labels)]
    wanted = [f"{layer}.{kind}" for layer in run.PURE for kind in ("program", "two_threads", "two_threads", "script")]
    assert sorted(ran) == sorted([*wanted, "lab.downloads", "vm.downloads"])


def test_a_full_run_compiles_the_programs_of_tests_for_the_sanitizers_only() -> None:
    dev, asan, tsan = run.plan(["all"])
    assert run.share(dev, entries_of(dev))[1] == ["without_test_programs"]
    assert run.share(asan, entries_of(asan))[1] == sorted(f"tests/{layer}.{kind}" for layer in run.PURE for kind in ("program", "two_threads"))
    assert run.share(tsan, entries_of(tsan))[1] == sorted(f"tests/{layer}.two_threads" for layer in run.PURE)


def test_the_fast_layers_alone_are_compiled_as_shipped() -> None:
    (build,) = run.plan(["fast"])
    mine, targets = run.share(build, entries_of(build))
    assert build.preset == "dev" and targets == []
    assert {one.name for one in mine} == {one.name for one in entries_of(build)} - {"lab.downloads", "vm.downloads"}


def two_entries(failures: set[str], again: bool) -> Layer:
    """A layer of lab.a and lab.b, or what ran again of it, in which these cases failed."""
    cases = [Case(f"{name}: {case}", Verdict.failed if f"{name}: {case}" in failures else Verdict.passed, "second" if again else "first", name)
             for name in ("lab.a", "lab.b") for case in ("one", "two")]
    return Layer("lab", 2, cases, 10.0)


def ran_again(monkeypatch, first: Layer, still: set[str]) -> tuple[Layer, list[str]]:
    """The layer after `run_again`, whose second run fails in `still`, and the entries that ran."""
    asked: list[str] = []

    def second(layers: Mapping[str, Sequence[Entry]], build: Path, jobs: int, progress: Progress, **how) -> list[Layer]:
        assert how["again"] and jobs == 1
        (layer, entries), = layers.items()
        asked.extend(one.name for one in entries)
        whole = two_entries(still, again=True)
        return [Layer(layer, len(entries), [case for case in whole.cases if case.entry in asked], 5.0)]

    monkeypatch.setattr(run, "run_entries", second)
    build = run.plan(["lab"])[0]
    return run.run_again(first, build, [entry(build, name, "lab", script=True) for name in ("lab.a", "lab.b")], Progress()), asked


def test_lab_and_vm_run_beside_each_other_and_are_told_apart(monkeypatch, tmp_path: Path) -> None:
    build = run.plan(["lab", "vm"])[0]
    asked: list[tuple[list[str], int]] = []

    def both(layers: Mapping[str, Sequence[Entry]], build: Path, jobs: int, progress: Progress, **how) -> list[Layer]:
        asked.append(([one.name for mine in layers.values() for one in mine], jobs))
        return [Layer(layer, len(mine), [Case(mine[0].name, Verdict.passed, "", mine[0].name)], 1.0) for layer, mine in layers.items()]

    monkeypatch.setattr(run, "run_entries", both)
    entries = [entry(build, "lab.a", "lab", script=True), entry(build, "vm.a", "vm", "hwsim", script=True)]
    layers = run.run_layers(build.layers, build, entries, Progress())
    assert asked == [(["lab.a", "vm.a"], 3)], "two of lab and one of vm at a time"
    assert [(layer.name, [case.name for case in layer.cases]) for layer in layers] == [("lab", ["lab.a"]), ("vm", ["vm.a"])]
    layers = run.run_layers(build.layers, build, entries[:1], Progress())
    assert [(layer.name, layer.tally()) for layer in layers] == [("vm", Tally(0, 0, 1)), ("lab", Tally(1, 0, 0))]


def test_what_failed_by_chance_is_run_again_and_told(monkeypatch) -> None:
    layer, asked = ran_again(monkeypatch, two_entries({"lab.b: one"}, again=False), set())
    assert asked == ["lab.b"]
    assert layer.tally() == Tally(4, 0, 0) and layer.entries == 2 and layer.seconds == 15.0
    assert [(case.name, case.why) for case in layer.first] == [("lab.b: one", "first")]


def test_what_fails_twice_has_failed(monkeypatch) -> None:
    layer, _ = ran_again(monkeypatch, two_entries({"lab.b: one"}, again=False), {"lab.b: one"})
    assert layer.tally() == Tally(3, 1, 0)
    assert [case.why for case in layer.cases if case.verdict is Verdict.failed] == ["second"]


def test_what_fails_the_second_time_only_has_failed(monkeypatch) -> None:
    layer, _ = ran_again(monkeypatch, two_entries({"lab.b: one"}, again=False), {"lab.b: two"})
    assert layer.tally() == Tally(3, 1, 0)


def test_nothing_is_run_again_without_a_failure_or_with_many(monkeypatch) -> None:
    layer, asked = ran_again(monkeypatch, two_entries(set(), again=False), set())
    assert asked == [] and layer.tally() == Tally(4, 0, 0)
    monkeypatch.setitem(run.RUN_AGAIN, "lab", 1)
    layer, asked = ran_again(monkeypatch, two_entries({"lab.a: one", "lab.b: one"}, again=False), set())
    assert asked == [] and layer.tally() == Tally(2, 2, 0)


def test_a_first_failure_stands_in_what_is_printed(capsys) -> None:
    layer = Layer("lab", 1, [Case("lab.a: one", Verdict.passed, "", "lab.a")], 1.0, [Case("lab.a: one", Verdict.failed, "it was late", "lab.a")])
    assert run.conclude([layer], Progress()) == 0
    printed = capsys.readouterr().out
    assert "Failed at first" in printed and "it was late" in printed
    assert printed.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("words, said", [
    (["demo", "--rounds", "0"], "at least one round"), (["demo", "--seed", "-1"], "--seed -1: a whole number from 0"), (["demo", "--bogus"], "unrecognized arguments: --bogus"), (["demo", "--scenario", "nosuch"], "no scenario of that name"),
    (["demo", "--out", "/dev/null/x"], "--out /dev/null/x"), (["test", "fats"], "invalid choice: 'fats'"), (["test", "fast", "--time", "virtual"], "allowed: lab, vm")])
def test_a_slip_is_told_before_anything_is_installed_or_built(tmp_path: Path, words: list[str], said: str) -> None:
    if words[0] == "demo" and os.geteuid() != 0:
        pytest.skip("needs root")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("demo", "test"):
        shutil.copy(ROOT / "tools" / name, tools)
    for name in ("lab", "testing"):
        (tools / name).symlink_to(ROOT / "tools" / name)
    (tools / "install-deps").write_text("#!/bin/sh\necho installing\nexit 7\n")
    (tools / "install-deps").chmod(0o755)
    done = subprocess.run([str(tools / words[0]), *words[1:]], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr


def test_one_run_at_a_time_in_a_checkout(tmp_path: Path) -> None:
    build = tmp_path / "build"
    with run.alone(build):
        with pytest.raises(run.NotAlone, match="another tools/test is at work in this checkout"), run.alone(build):
            pass
    with run.alone(build):
        pass
    with pytest.raises(run.NotAlone, match="has to be writable"), run.alone(Path("/proc/build")):
        pass
