#!/usr/bin/python3
"""Entry of the lab: `lab.py up|down|status|exec|run|shell|set|events|list|check ...`; see docs/lab.md."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True  # an installed directory stays as the package left it
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]  # in the source tree and installed, they lie side by side

from tandem_common.output import written_out  # noqa: E402
from tandem_lab.cli import main  # noqa: E402

if __name__ == "__main__":
    with written_out("tandem lab"):
        sys.exit(main(sys.argv[1:]))
