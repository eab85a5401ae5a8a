"""tools/lab/kernel and what the lab says where no fitting kernel is built. No kernel is needed, none is built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LAB_PY, ROOT

from tandem_lab import kernel_build as building, kernels, virtual, virtual_clock
from tandem_lab.errors import LabError

KERNEL = LAB_PY.parent / "kernel"
BENCH_PY = ROOT / "tools" / "bench" / "bench.py"


def call(cache: Path, *words: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, timeout=60, env={**os.environ, "XDG_CACHE_HOME": str(cache)})


def pretend(cache: Path, recipe: str) -> None:
    """A kernel in the cache, made by that recipe."""
    place = cache / "tandem" / "lab-kernel" / "0123456789abcdef"
    place.mkdir(parents=True)
    (place / "linux").write_text("#!/bin/false\n")
    (place / "linux").chmod(0o755)
    (place / "kernel.json").write_text(json.dumps({"checksum": place.name, "recipe": recipe, "source": "6.1.1-1", "release": "6.1.1"}))


@pytest.fixture
def outside() -> None:
    if virtual.inside():
        pytest.skip("a kernel in virtual time starts no other one")


def one_line(done: subprocess.CompletedProcess, code: int) -> str:
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("words", [(LAB_PY, "run", "plain", "--time", "virtual"), (BENCH_PY, "offload", "--time", "virtual"), (KERNEL, "status")])
def test_no_kernel(outside: None, tmp_path: Path, words: tuple) -> None:
    said = one_line(call(tmp_path, *words), 1)
    assert "no kernel for virtual time is built" in said and f"{KERNEL} build" in said


@pytest.mark.parametrize("words", [(LAB_PY, "run", "plain", "--time", "virtual"), (BENCH_PY, "offload", "--time", "virtual"), (KERNEL, "status")])
def test_a_kernel_of_another_configuration(outside: None, tmp_path: Path, words: tuple) -> None:
    pretend(tmp_path, "fedcba9876543210")
    said = one_line(call(tmp_path, *words), 1)
    assert "of another configuration" in said and f"{KERNEL} build" in said


def test_status_and_remove(tmp_path: Path) -> None:
    pretend(tmp_path, kernels.recipe())
    shown = json.loads(call(tmp_path, KERNEL, "status", "--json").stdout)
    assert shown["fits"] and [kernel["checksum"] for kernel in shown["kernels"]] == ["0123456789abcdef"]
    assert "already there" in call(tmp_path, KERNEL, "build").stdout
    assert "removed" in call(tmp_path, KERNEL, "remove").stdout
    assert not (tmp_path / "tandem" / "lab-kernel").exists()
    assert call(tmp_path, KERNEL, "remove").returncode == 0


def test_the_checksum_follows_source_and_recipe() -> None:
    assert len({kernels.checksum("6.1.1-1", "a"), kernels.checksum("6.1.2-1", "a"), kernels.checksum("6.1.1-1", "b")}) == 3


def test_wrong_words(tmp_path: Path) -> None:
    assert call(tmp_path, KERNEL).returncode == 2
    assert call(tmp_path, KERNEL, "make").returncode == 2
    assert "allowed: a whole number from 1" in one_line(call(tmp_path, KERNEL, "build", "--jobs", "0"), 2)


def test_results_are_for_virtual_time(outside: None, tmp_path: Path) -> None:
    assert "allowed with --time virtual" in one_line(call(tmp_path, LAB_PY, "run", "plain", "--results", str(tmp_path)), 2)


def test_a_full_disk(small_disk: Path) -> None:
    if lacks := building.missing():
        pytest.skip("packages are missing: " + " ".join(lacks))
    said = one_line(call(small_disk, KERNEL, "build"), 1)
    assert "are free, the build needs" in said
    assert not list((small_disk / "tandem" / "lab-kernel").glob("build-*"))


def test_a_disk_that_fills_up_while_it_is_built(outside: None, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacks := building.missing():
        pytest.skip("packages are missing: " + " ".join(lacks))
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_disk))
    monkeypatch.setattr(building, "SPACE", 0)
    with pytest.raises(LabError, match=f"^{kernels.cache()}: the disk is full: .*No space left"):
        building.build(1, lambda *_: None)
    assert not list(kernels.cache().iterdir())


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    if building.missing():
        pytest.skip("packages for the build are missing")
    (tmp_path / "file").write_text("")
    assert "Not a directory" in one_line(call(tmp_path / "file", KERNEL, "build"), 1)


def test_a_configuration_that_the_kernel_does_not_take_is_found(tmp_path: Path) -> None:
    written = tmp_path / ".config"
    lines = [line for line in kernels.CONFIG.read_text().splitlines() if line.startswith("CONFIG_") and not line.endswith("=n")]
    written.write_text("\n".join(lines))
    building._check_config(written)
    written.write_text("\n".join(line for line in lines if not line.startswith("CONFIG_MPTCP=")))
    with pytest.raises(Exception, match="CONFIG_MPTCP=y"):
        building._check_config(written)


@pytest.mark.parametrize(("clock", "cpu", "spins"), [(0, 0.6, True), (256, 0.6, False), (0, 0.0, False)],
                         ids=["computes while its clock stands", "computes and goes on", "stopped, or without CPU"])
def test_what_spins(monkeypatch: pytest.MonkeyPatch, clock: int, cpu: float, spins: bool) -> None:
    """Each look the clock moved by so much, and so much CPU time was taken; the limit is 1 s."""
    watched = virtual_clock.Clock(Path("/nowhere"), 1, 1.0)
    seen: list[bool] = []
    for look in range(1, 5):
        monkeypatch.setattr(virtual_clock.time, "monotonic", lambda: watched._looked + 1)
        monkeypatch.setattr(watched, "nanoseconds", lambda: look * clock)
        monkeypatch.setattr(virtual_clock, "cpu_seconds", lambda _: look * cpu)
        seen.append(watched.spins())
    assert seen == [False, False, spins, spins]


def test_a_wrong_limit_is_wrong_usage(outside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, kernels.recipe())
    monkeypatch.setenv("TANDEM_SPIN_LIMIT", "soon")
    if os.geteuid() == 0:
        assert "TANDEM_SPIN_LIMIT=soon: allowed: CPU seconds" in one_line(call(tmp_path, LAB_PY, "run", "plain", "--no-air", "--time", "virtual"), 2)
