"""How ninja is called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "testing"))

import builds  # noqa: E402
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
