"""tests/lab/test_sleep.py in the virtual machine: it sets the wall clock, which on the machine of the tests is everybody's."""

from __future__ import annotations

from pathlib import Path

from conftest import ROOT, Guest
from tandem_lab import virtual
import pytest

TEST = ROOT / "tests" / "lab" / "test_sleep.py"


@pytest.mark.skipif(bool(virtual.inside()), reason="tests/lab/test_sleep.py itself runs in virtual time")
def test_after_a_sleep_nobody_speaks_for_a_flow(guest: Guest, programs: Path) -> None:
    if not (programs.parent / "tests" / "tandem_asleep.so").exists():
        pytest.skip("tests/tandem_asleep.so is not built")
    result = guest("sleep.sh", str(programs), str(TEST), timeout=240.0, modules=["nfnetlink_queue", "nft_queue", "nf_tables", "veth", "af_packet", "tun"])
    assert result.exit_code == 0, result.output
    assert "2 passed" in result.output and "skipped" not in result.output, "a skipped test shows nothing"
