#!/usr/bin/python3
"""Entry of the lab: `lab.py up|down|status|exec|run|shell|set|events|list|check ...`; see docs/lab.md."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True  # an installed directory stays as the package left it
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tandem_lab.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
