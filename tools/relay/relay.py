#!/usr/bin/python3
"""Entry of the relay's set-up: `relay.py DIRECTORY --host NAME`; see docs/relay.md."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # an installed directory stays as the package left it
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]  # in the source tree and installed, they lie side by side

from tandem_common.output import written_out  # noqa: E402
from tandem_relay.cli import main  # noqa: E402

if __name__ == "__main__":
    with written_out("tandem relay"):
        sys.exit(main(sys.argv[1:]))
