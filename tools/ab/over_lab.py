#!/usr/bin/python3
"""`tandem ab` in the lab's client, against a server there: what it says where the air is known.

Needs root and a build. `over_lab.py [--scenario S] [--set KEY=VALUE] [--markdown FILE] -- WORDS of tandem ab`; URL in them is a long file of
the lab's server, SERVER its address.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / part) for part in ("lab", "common")]

from tandem_common import provenance  # noqa: E402
from tandem_common.output import written_out  # noqa: E402
from tandem_lab import Lab, scenario, system  # noqa: E402
from tandem_lab.errors import LabError  # noqa: E402


def main() -> int:
    made = argparse.ArgumentParser(prog="tools/ab/over_lab.py", description=__doc__)
    made.add_argument("--scenario", default="plain", metavar="NAME", help="of the lab (default plain)")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a value of the scenario, e.g. wifi.loss=0.003")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="of the lab (default 1)")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write the report there, headed with commit and command")
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given = made.parse_args(sys.argv[1:place])
    try:
        return measure(given, sys.argv[place + 1:])
    except LabError as error:
        print(f"over_lab.py: {error}", file=sys.stderr)
        return error.code


def measure(given: argparse.Namespace, words: list[str]) -> int:
    overrides = dict(scenario.parse_override(word) for word in given.set)
    with tempfile.TemporaryDirectory() as directory, Lab(given.scenario, overrides=overrides, seed=given.seed, prefix="ab-") as lab, lab.daemon() as daemon:
        server = lab.server("srv1").ipv4
        told = [word.replace("URL", f"http://{server}/100G").replace("SERVER", server) for word in words]
        environment = dict(os.environ, TANDEM_SOCKET=str(daemon.socket), XDG_STATE_HOME=directory)
        command = [str(system.tandem_binary("tandem")), "ab", *told, "--report", "ab", "--yes"]
        done = subprocess.run(lab.client.argv(command), env=environment, cwd=directory)
        page = Path(directory, "ab/report.md")
        if given.markdown and page.exists():
            given.markdown.write_text(headed(page.read_text(), given.markdown.stem, lab.info["scenario"]))
    return done.returncode


def headed(text: str, name: str, scenario: str) -> str:
    title, _, body = text.partition("\n")
    commit = provenance.commit()
    return (f"# {name}\n\n`tandem ab` over the lab (scenario {scenario}): {title.removeprefix('# ')}.\n\n- made by: {shlex.join(['tools/ab/over_lab.py', *sys.argv[1:]])}\n"
            f"- commit: {commit['commit']}{', with uncommitted changes' if commit['dirty'] else ''}\n{body}")


if __name__ == "__main__":
    with written_out("tools/ab/over_lab.py"):
        sys.exit(main())
