"""The relay's program is imported from the source tree."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools" / part) for part in ("relay", "common")]
sys.dont_write_bytecode = True
