#!/usr/bin/python3
"""Entry of the simulator: `sim.py run|single|grid|uplink|many|sweep|list ...`; see docs/sim.md."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # an installed directory stays as the package left it
sys.path[:0] = [str(HERE), str(HERE.parent / "common"), str(HERE.parent / "lab")]

from tandem_common.output import written_out  # noqa: E402
from tandem_simulator.cli import main  # noqa: E402

if __name__ == "__main__":
    with written_out("tandem sim"):
        sys.exit(main(sys.argv[1:]))
