"""The command line of the parts in Python."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Sequence

from . import reader, series
from .errors import BadInput, TraceError


def plot(given: argparse.Namespace) -> None:
    from tandem_common.whole import written_whole

    output = given.output
    if output.suffix not in (".html", ".png"):
        raise BadInput(f"-o {output}: a name that ends in .html or .png is needed")
    story = reader.story(given.file, given.flow)
    title = f"{given.file.name}, flow {given.flow}"
    told = series.of_packets(reader.packets(given.file, given.flow), story["first_ns"])
    try:
        if output.suffix == ".png":
            from .picture import picture

            picture(title, told, story, output)
        else:
            from .page import page

            with written_whole(output) as fresh:
                fresh.write_text(page(title, told, story))
    except OSError as fault:
        raise TraceError(f"{output}: {fault.strerror}") from fault
    print(f"{output}: {told['packets']} packets")


def anonymise(given: argparse.Namespace) -> None:
    from .anonymise import anonymise as work

    key = given.key.read_bytes() if given.key else None
    print(work(given.file, given.output, key))


def wireshark(given: argparse.Namespace) -> None:
    from . import wireshark as shark

    if given.remove:
        for path in shark.remove():
            print(f"removed {path}")
        return
    for path in shark.install():
        print(path)
    print("Start Wireshark with the profile: wireshark -C Tandem FILE")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tandem trace", description="Plots and copies of recordings.")
    actions = parser.add_subparsers(dest="action", required=True)

    one = actions.add_parser("plot", help="a flow's course as a page that zooms, or as PNG")
    one.add_argument("file", type=Path, help="recording or capture")
    one.add_argument("--flow", type=int, default=1, help="number of the flow, as explain shows it (default 1)")
    one.add_argument("-o", "--output", type=Path, required=True, help="FILE.html or FILE.png")
    one.set_defaults(work=plot)

    one = actions.add_parser("anonymise", help="a copy with other addresses and without payload")
    one.add_argument("file", type=Path, help="recording or capture")
    one.add_argument("-o", "--output", type=Path, required=True, help="the copy, pcapng or pcap as the original")
    one.add_argument("--key", type=Path, help="file with 32 bytes: equal keys give equal addresses; default a fresh one that is thrown away")
    one.set_defaults(work=anonymise)

    one = actions.add_parser("wireshark", help="Tandem's fields and colours for Wireshark")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("--install", action="store_true", help="put dissector and profile into your own Wireshark directories")
    what.add_argument("--remove", action="store_true", help="take them away")
    one.set_defaults(work=wireshark)

    given = parser.parse_args(words)
    try:
        given.work(given)
        sys.stdout.flush()
        return 0
    except TraceError as fault:
        print(f"tandem trace: {fault}", file=sys.stderr)
        return fault.code
    except OSError as fault:
        print(f"tandem trace: {fault.filename or 'output'}: {fault.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
