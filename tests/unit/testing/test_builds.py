"""How ninja is called."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "testing"))

import builds  # noqa: E402
import entries  # noqa: E402
from progress import Progress  # noqa: E402


def test_a_compiler_cache_may_keep_units_that_read_precompiled_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    def no_ninja(command, environment=None):
        seen.append(environment or {})
        yield None
        return 0

    monkeypatch.setattr(builds, "lines_of", no_ninja)
    builds.compile_targets("dev", tmp_path, [], Progress())
    assert seen[0].get("CCACHE_SLOPPINESS") == "pch_defines,time_macros" and "PATH" in seen[0]


def test_only_what_ctest_reads_is_read(tmp_path: Path) -> None:
    for directory, text in (("", 'subdirs("src/wire")\nsubdirs(tests)\n'), ("src/wire", "of wire"), ("tests", "of tests"), ("distro/trixie/build", "of another build")):
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        (tmp_path / directory / "CTestTestfile.cmake").write_text(text)
    assert list(entries.ctest_files(tmp_path))[1:] == ["of wire", "of tests"]
    assert list(entries.ctest_files(tmp_path / "nowhere")) == []


def test_what_is_compiled_aside_takes_idle_time_only_and_ends_with_what_it_is_beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = ("import os, pathlib, subprocess, time; p = subprocess.Popen(['sleep', '60']); group = pathlib.Path('/proc/self/autogroup'); "
              "group = group.read_text().split()[-1] if group.exists() else 'none'; "
              f"open({str(child)!r}, 'w').write(f'{{p.pid}} {{os.sched_getscheduler(p.pid)}} {{group}} '); time.sleep(60)")
    monkeypatch.setattr(builds, "_ninja", lambda build, targets: [sys.executable, "-c", script])
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        with builds.compiling_aside([(tmp_path, [])]):
            while not (child.exists() and child.read_text().endswith(" ")):
                assert time.monotonic() < began + 30
                time.sleep(0.01)
            raise KeyboardInterrupt
    assert time.monotonic() < began + 30
    pid, policy, group = child.read_text().split()
    assert int(policy) == os.SCHED_IDLE
    assert group in ("19", "none"), "where sessions are grouped, an idle one has as much as any"
    while running(int(pid)):
        assert time.monotonic() < began + 30
        time.sleep(0.01)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
