#!/usr/bin/python3
"""Runs files of the lab layer in virtual time: virtual_run.py [PYTEST ARGUMENT...], e.g. virtual_run.py test_paths.py -k nat.

Everything happens inside one kernel in virtual time (docs/lab.md), so what else the machine does changes nothing. Exit codes are pytest's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "lab"))

from tandem_lab.errors import LabError  # noqa: E402
from tandem_lab import virtual_machine as machine  # noqa: E402


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__, file=sys.stderr)
        return 0 if arguments else 2
    os.chdir(HERE)
    try:
        return machine.run(["/usr/bin/python3", "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", *arguments], seed=1, say=machine.to_terminal,
                           environment={"TANDEM_BIN_DIR": os.environ.get("TANDEM_BIN_DIR", str(ROOT / "build" / "bin"))}).exit_code
    except LabError as error:
        print(f"virtual_run.py: {error}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
