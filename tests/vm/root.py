#!/usr/bin/python3
"""A small Debian for the virtual machine, with systemd: made of packages by mmdebstrap in a cache, never mixed with this machine's files.

    root.py CACHE        make it below CACHE unless it is there, with the packages of the group "guest" of tools/packages
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE = "bookworm"
INSTALL_DEPS = Path(__file__).resolve().parents[2] / "tools" / "install-deps"


class NoRoot(Exception):
    """Says what is missing and what to do."""


def wanted() -> list[str]:
    """The packages, sorted."""
    return sorted(subprocess.run([INSTALL_DEPS, "--print", "--release", SUITE, "guest"], capture_output=True, text=True, check=True).stdout.split())


def find(cache: Path) -> Path:
    """The root in the cache. Raises NoRoot when there is none, or one of other packages than are wanted now."""
    made = cache / "root"
    try:
        held = (made / "packages").read_text().split()
    except OSError as error:
        raise NoRoot("no Debian with systemd is made for the virtual machine; make it with: tools/install-deps vm") from error
    if held != [SUITE, *wanted()]:
        raise NoRoot("the Debian for the virtual machine has other packages than tools/packages names; make it anew with: tools/install-deps vm")
    return made / "system"


def make(cache: Path) -> Path:
    """Makes it unless it is in the cache. Raises NoRoot."""
    try:
        return find(cache)
    except NoRoot:
        pass
    if os.geteuid() != 0:
        raise NoRoot("root is needed to make a Debian for the virtual machine; run: sudo tools/install-deps vm")
    if not shutil.which("mmdebstrap"):
        raise NoRoot("mmdebstrap is not installed; run: tools/install-deps vm")
    print("making a Debian with systemd for the virtual machine, which takes a minute or two", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="root-") as scratch:
        Path(scratch).chmod(0o755)
        tree = Path(scratch) / "root"
        tree.mkdir()
        command = ["mmdebstrap", "--mode=root", "--variant=essential", '--aptopt=Acquire::Retries "3"', '--aptopt=APT::Install-Recommends "0"',
                   f"--include={','.join(wanted())}", SUITE, str(tree / "system")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1200)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoRoot(f"mmdebstrap: {error}") from error
        if done.returncode != 0:
            raise NoRoot("mmdebstrap could not make a Debian for the virtual machine:\n" + done.stderr[-3000:].strip())
        (tree / "packages").write_text("\n".join([SUITE, *wanted()]) + "\n")
        shutil.rmtree(cache / "root", ignore_errors=True)
        tree.rename(cache / "root")  # whole or not at all
    return find(cache)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    cache = Path(arguments[0])
    try:
        find(cache)
    except NoRoot:
        try:
            make(cache)
        except NoRoot as error:
            print(f"no Debian with systemd for the virtual machine, the test that needs it will be skipped: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
