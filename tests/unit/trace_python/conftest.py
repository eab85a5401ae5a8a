"""Where the code is, and the program that it asks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools/trace"), str(ROOT / "tools/common")]
os.environ.setdefault("TANDEM_PROGRAM", str(ROOT / "build/bin/tandem"))

GOLDEN = ROOT / "tests/golden/trace"


@pytest.fixture
def golden() -> Path:
    return GOLDEN
