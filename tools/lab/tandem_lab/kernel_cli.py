"""The command `tools/lab/kernel`: builds, shows and removes the kernel of the lab in virtual time."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Sequence

from .errors import LabError
from . import kernel_build, kernels

EPILOG = """\
`tandem lab run SCENARIO --time virtual` and `tandem bench NAME --time virtual` run on it. Exit codes: 0 good, 1 failure (also: no kernel
that fits, with status), 2 wrong usage, 130 interrupted.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/lab/kernel", description="The user-mode Linux kernel of the lab in virtual time, built from Debian's source "
                                     "into $XDG_CACHE_HOME/tandem/lab-kernel; nothing is installed.", epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build it, unless one of this configuration is there")
    build.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="compilers at the same time (default: one a core)")
    build.add_argument("--again", action="store_true", help="build it also when it is there")
    status = commands.add_parser("status", help="which kernels are built, and whether one fits")
    status.add_argument("--json", action="store_true")
    commands.add_parser("remove", help="remove all that were built")
    return parser


def _build(options: argparse.Namespace) -> int:
    if options.jobs < 1:
        print(f"tools/lab/kernel: --jobs {options.jobs}: allowed: a whole number from 1", file=sys.stderr)
        return 2
    if not options.again:
        try:
            print(f"already there: {kernels.find().words}")
            return 0
        except kernels.NoKernel:
            pass
    progress = kernel_build.Progress()
    try:
        kernel = kernel_build.build(options.jobs, progress)
    finally:
        progress.end()
    print(f"built: {kernel.words}\n{kernel.image}")
    return 0


def _status(options: argparse.Namespace) -> int:
    there = kernels.built()
    now = kernels.recipe()
    fits = any(kernel.recipe == now for kernel in there)
    source = kernels.source_version()
    if options.json:
        print(json.dumps({"cache": str(kernels.cache()), "fits": fits, "recipe": now, "source": source, "missing_packages": kernel_build.missing(),
                          "kernels": [{"checksum": kernel.checksum, "source": kernel.source, "release": kernel.release, "image": str(kernel.image),
                                       "fits": kernel.recipe == now} for kernel in there]}, indent=2))
        return 0 if fits else 1
    for kernel in there:
        words = "in use" if kernel.recipe == now else "of another configuration"
        if kernel.recipe == now and source and source != kernel.source:
            words += f"; Debian's source is {source} by now (build --again)"
        print(f"{kernel.words}: {words}\n  {kernel.image}")
    if not fits:
        kernels.find()  # says what to do
    return 0


def _remove(_: argparse.Namespace) -> int:
    gone = kernels.remove()
    print("\n".join(f"removed {path}" for path in gone) or f"nothing in {kernels.cache()}")
    return 0


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        return {"build": _build, "status": _status, "remove": _remove}[options.command](options)
    except LabError as error:
        print(f"tools/lab/kernel: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"tools/lab/kernel: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
