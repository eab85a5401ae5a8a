"""The command line of the parts in Python."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Sequence

from tandem_common.control import add_socket_option
from tandem_common.output import is_of_output

from . import reader, series
from .errors import BadInput, TraceError, need_file


def plot(given: argparse.Namespace) -> None:
    from tandem_common.whole import written_whole

    output = given.output
    if output.suffix not in (".html", ".png"):
        raise BadInput(f"-o {output}: a name that ends in .html or .png is needed")
    story = reader.story(given.file, given.flow)
    # A name on the disk may be any bytes; a page is UTF-8.
    title = f"{os.fsencode(given.file.name).decode(errors='replace')}, flow {given.flow}"
    upload = given.direction == "up" if given.direction else story["bytes_out"] > story["bytes_in"]
    told = series.of_packets(reader.packets(given.file, given.flow), story["first_ns"], upload)
    wifi = series.of_links(story)
    story.pop("links")
    told["lines"]["signal"] = wifi.pop("signal")
    told |= wifi
    try:
        if output.suffix == ".png":
            from .picture import picture

            picture(title, told, story, output)
        else:
            from .page import page

            with written_whole(output) as fresh:
                fresh.write_text(page(title, told, story), encoding="utf-8")
    except OSError as fault:
        raise TraceError(f"{output}: {fault.strerror}") from fault
    print(f"{output}: {told['packets']} packets")
    if fault := story["fault"]:
        sys.stdout.flush()
        raise BadInput(f"{fault}; {output} shows what is before it")


def diff(given: argparse.Namespace) -> None:
    from . import difference

    options = ["--stall-ms", str(given.stall_ms)] if given.stall_ms is not None else []
    told = difference.diff(given.a, given.b, [*options, *(word for address in given.local for word in ("--local", address))])
    print(json.dumps(told, indent=1) if given.json else "\n".join(difference.lines(told)))
    if fault := told["a"]["fault"] or told["b"]["fault"]:
        sys.stdout.flush()
        raise BadInput(f"{fault}; what is before it was compared")


def bundle(given: argparse.Namespace) -> None:
    from .bundle import bundle as work

    if not given.output.name.endswith((".tar.gz", ".tgz")):
        raise BadInput(f"-o {given.output}: a name that ends in .tar.gz is needed")
    lines = work(given.output, given.socket, given.config, given.recording, given.with_addresses)
    print("\n".join([*lines, f"{given.output}: look at it before you give it away"]))


def capture(given: argparse.Namespace) -> None:
    from tandem_common.control import Daemon
    from tandem_common.duration import duration
    from tandem_common.errors import Failure

    from .capture import capture as work
    from .selection import Selection, peer

    if given.output != "-":
        need_file(Path(given.output))
    try:
        for_s = duration("--for", given.length, 0.1) if given.length else None
        selection = Selection(tuple(peer(one) for one in given.flow), tuple(given.module))
        print(work(Daemon(given.socket), given.output, selection, for_s), file=sys.stderr)
    except Failure as fault:
        sys.stdout.flush()
        raise (BadInput if fault.code == 2 else TraceError)(str(fault)) from fault


def anonymise(given: argparse.Namespace) -> None:
    from .anonymise import anonymise as work

    if given.output.exists() and given.output.samefile(given.file):
        raise BadInput(f"-o {given.output}: is the recording itself, of which the copy keeps the headers only; another name is needed")
    need_file(given.output)
    key = given.key.read_bytes() if given.key else None
    copied = work(given.file, given.output, key)
    if copied.fault:
        raise BadInput(f"{given.file}: {copied.fault}; {given.output} holds the {copied.kept} packets before it")
    print(f"{given.output}: {copied.kept} TCP packets; {copied.left_out} others were left out")


def wireshark(given: argparse.Namespace) -> None:
    from . import wireshark as shark

    if given.remove:
        paths, (link, hint) = shark.remove(), shark.remove_live()
        for path in [*paths, *filter(None, [link])]:
            print(f"removed {path}")
    else:
        paths, (link, hint) = shark.install(), shark.install_live()
        for path in [*paths, *filter(None, [link])]:
            print(path)
        print("Start Wireshark with the profile: wireshark -C Tandem FILE")
        if link:
            print("What the daemon records now: wireshark -C Tandem -k -i tandem")
    if hint:
        print(hint, file=sys.stderr)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tandem trace", description="Plots and copies of recordings.")
    actions = parser.add_subparsers(dest="action", required=True)

    one = actions.add_parser("plot", help="a flow's course as a page that zooms, or as PNG")
    one.add_argument("file", type=Path, help="recording or capture")
    one.add_argument("--flow", type=int, default=1, help="number of the flow, as explain shows it (default 1)")
    one.add_argument("--direction", choices=("down", "up"), help="which data: what arrives, or what the laptop sends (default: of which there is more)")
    one.add_argument("-o", "--output", type=Path, required=True, help="FILE.html or FILE.png")
    one.set_defaults(work=plot)

    one = actions.add_parser("diff", help="what differs between two recordings, connection by connection")
    one.add_argument("a", type=Path, metavar="A", help="recording or capture")
    one.add_argument("b", type=Path, metavar="B", help="the other one")
    one.add_argument("--stall-ms", type=int, metavar="MS", help="shorter pauses are no stalls (default 200)")
    one.add_argument("--local", action="append", default=[], metavar="ADDRESS", help="an address of the laptop (may be repeated)")
    one.add_argument("--json", action="store_true", help="print it as JSON")
    one.set_defaults(work=diff)

    one = actions.add_parser("bundle", help="what a bug report needs, without secrets: doctor, status, metrics, configuration, the latest recording, versions")
    one.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.tar.gz", help="for its owner only (mode 0600)")
    one.add_argument("--with-addresses", action="store_true", help="keep IP addresses; payload, names and hardware addresses are left out all the same")
    one.add_argument("-c", "--config", type=Path, metavar="FILE", help="configuration file (default /etc/tandem/tandem.toml)")
    one.add_argument("--recording", type=Path, metavar="FILE", help="this recording or capture in place of what the daemon has recorded last")
    add_socket_option(one)
    one.set_defaults(work=bundle)

    one = actions.add_parser("capture", help="what the daemon records from now on, of some flows and modules if wanted")
    one.add_argument("-o", "--output", required=True, metavar="FILE", help="pcapng, for its owner only (mode 0600); - is standard output")
    one.add_argument("--flow", action="append", default=[], metavar="HOST[:PORT]", help="only connections to this host, as name or address (may be repeated)")
    one.add_argument("--module", action="append", default=[], metavar="NAME", help="only packets that this module decided about (may be repeated)")
    one.add_argument("--for", dest="length", metavar="TIME", help="how long, e.g. 30s; otherwise until Ctrl-C")
    add_socket_option(one)
    one.set_defaults(work=capture)

    one = actions.add_parser("anonymise", help="a copy with other addresses and without payload")
    one.add_argument("file", type=Path, help="recording or capture")
    one.add_argument("-o", "--output", type=Path, required=True, help="the copy, pcapng whatever the original is")
    one.add_argument("--key", type=Path, help="file with 32 bytes: equal keys give equal addresses; default a fresh one that is thrown away")
    one.set_defaults(work=anonymise)

    one = actions.add_parser("wireshark", help="Tandem's fields and colours for Wireshark, and the live interface")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("--install", action="store_true", help="put dissector, profile and the interface \"Tandem (live)\" where Wireshark finds them")
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
        if is_of_output(fault):
            raise
        print(f"tandem trace: {fault.filename or 'output'}: {fault.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
