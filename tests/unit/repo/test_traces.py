"""The lab's cellular traces are made when it is built: the same bytes every time, so that results stay comparable."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

SCRIPT = ROOT / "tools/lab/profiles/make-lte-trace.py"
# Of the files that results up to now were measured with.
KNOWN = {"lte-down.trace": "c5c002dc2f29201346377ce575549518b5bcf4fabfd0781c1e597f7422ea7ab9",
         "lte-up.trace": "fb4e702499d459b489f47952b710b6a38c838a768e6e558a4a20aaeba41603e6"}


def test_traces_are_the_known_ones(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SCRIPT), str(tmp_path / "new")], check=True, capture_output=True)
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "new").iterdir()} == KNOWN


def test_a_directory_is_needed() -> None:
    done = subprocess.run([sys.executable, "-B", str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode != 0 and done.stderr.startswith("usage:")
