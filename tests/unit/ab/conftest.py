"""The evaluation is imported from the source tree."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools" / part) for part in ("ab", "common")]
sys.dont_write_bytecode = True

import pytest  # noqa: E402


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    """A made-up daemon, and a place for what is remembered."""
    from fake_daemon import FakeDaemon

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fake = FakeDaemon(tmp_path / "control.sock")
    monkeypatch.setenv("TANDEM_SOCKET", str(fake.path))
    yield fake
    fake.close()
