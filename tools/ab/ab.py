#!/usr/bin/python3
"""Entry of the evaluation: `ab.py SETTINGS [--url URL ...]`; see docs/ab.md."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # an installed directory stays as the package left it
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]  # in the source tree and installed, they lie side by side

from tandem_common.output import written_out  # noqa: E402

try:
    from tandem_ab.cli import main  # noqa: E402
except ModuleNotFoundError as error:
    sys.exit(f"tandem ab: {error.name}: not found; install it: apt-get install python3-{error.name}")

if __name__ == "__main__":
    with written_out("tandem ab"):
        sys.exit(main(sys.argv[1:]))
