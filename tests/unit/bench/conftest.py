"""The benches are imported from the source tree."""

import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path[:0] = [str(TOOLS / "bench"), str(TOOLS / "common"), str(TOOLS / "lab"), str(TOOLS / "sim")]
sys.dont_write_bytecode = True
