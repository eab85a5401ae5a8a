#!/usr/bin/python3
"""Wireshark's way to what the running daemon records: an extcap program, linked into Wireshark's directory by `tandem trace wireshark --install`; see docs/traces.md."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent  # resolve() follows the link to where the rest lies
sys.dont_write_bytecode = True  # an installed directory stays as the package left it
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]

from tandem_common.output import written_out  # noqa: E402
from tandem_trace.live import main  # noqa: E402

if __name__ == "__main__":
    with written_out("tandem-live"):
        sys.exit(main(sys.argv[1:]))
