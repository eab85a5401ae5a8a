"""The benches are imported from the source tree."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [*(str(ROOT / "tools" / part) for part in ("bench", "common", "lab", "sim")), str(ROOT / "tests" / "fixtures")]
sys.dont_write_bytecode = True

from small_disk import small_disk  # noqa: E402, F401
