#!/usr/bin/python3
"""The parts of `tandem trace` in Python: `trace.py plot|diff|capture|bundle|anonymise|wireshark ...`; see docs/traces.md."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # an installed directory stays as the package left it
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]

from tandem_common.output import written_out  # noqa: E402
from tandem_trace.cli import main  # noqa: E402

if __name__ == "__main__":
    with written_out("tandem trace"):
        sys.exit(main(sys.argv[1:]))
