"""An extcap program (wireshark-extcap(4)): what the daemon records, as it comes.

The daemon is asked again and again for what its flight recorder has got since.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import BinaryIO, Callable, Sequence

from tandem_common.control import Daemon, default_socket
from tandem_common.errors import Failure
from tandem_common.pcapng import PACKET

from .looks import Looks, News, with_drop_count

INTERFACE = "tandem"
GONE_S = 10.0  # a daemon that is started anew answers again within that time


def stream(daemon: Daemon, out: BinaryIO, interval_s: float, sleep: Callable[[float], None] = time.sleep) -> int:
    """Until the reader has enough. Raises Failure when the daemon does not answer at first, or is gone for long."""
    looks, since = Looks(), 0.0
    while True:
        try:
            news = looks.news(daemon.fetch(looks.target()))
            if news.restarted:
                news = looks.news(daemon.fetch(looks.target()))
            since = 0.0
        except Failure:
            since += max(interval_s, 0.1)
            if not looks.begun or since > GONE_S:
                raise
            news = News()
        try:
            out.write(news.head + packets(news))
            out.flush()
        except BrokenPipeError:
            return 0
        sleep(interval_s)


def packets(news: News) -> bytes:
    """Packets alone; the first one after a loss says how many are missing."""
    found = [block.raw for block in news.entries if block.kind == PACKET]
    if found and news.lost:
        found[0] = with_drop_count(found[0], news.lost)
    return b"".join(found)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="tandem-live", description="Started by Wireshark: what tandemd records, as it comes.", allow_abbrev=False)
    for flag in ("--extcap-interfaces", "--extcap-dlts", "--extcap-config", "--capture"):
        made.add_argument(flag, action="store_true")
    made.add_argument("--extcap-interface", default="")
    made.add_argument("--extcap-version", nargs="?", default="")
    made.add_argument("--extcap-capture-filter", default="")
    made.add_argument("--fifo", default="")
    made.add_argument("--interval", type=float, default=1.0)
    made.add_argument("--socket", default=default_socket())
    return made


def main(words: Sequence[str]) -> int:
    given, _ = parser().parse_known_args(words)  # later releases of Wireshark may ask for more
    if given.extcap_interfaces:
        print("extcap {version=1.0}{display=Tandem}\n" + f"interface {{value={INTERFACE}}}{{display=Tandem (live)}}")
        return 0
    if given.extcap_interface != INTERFACE:
        print(f"tandem-live: there is one interface: {INTERFACE}", file=sys.stderr)
        return 2
    if given.extcap_dlts:
        print("dlt {number=101}{name=RAW}{display=IP}")
    elif given.extcap_config:
        print(f"arg {{number=0}}{{call=--socket}}{{display=Control socket}}{{type=string}}{{default={given.socket}}}{{tooltip=of the running daemon}}\n"
              "arg {number=1}{call=--interval}{display=Seconds between two looks}{type=double}{range=0.2,10}{default=1}{tooltip=each takes what was recorded since the one before}")
    elif given.extcap_capture_filter and not given.capture:
        print("Tandem records what it is told to; use a display filter")
    elif given.capture:
        return capture(given)
    return 0


def capture(given: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # Wireshark's way to stop; what was written is whole blocks
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    try:
        if not 0.2 <= given.interval <= 10:
            raise Failure(f"--interval {given.interval:g}: allowed: 0.2 to 10 seconds")
        if not given.fifo:
            raise Failure("--fifo is missing: this program is started by Wireshark")
        with open(given.fifo, "wb") as out:  # in any case: Wireshark waits for it
            try:
                return stream(Daemon(given.socket), out, given.interval)
            except Failure as failure:
                # Before the pipe closes: after that Wireshark may not wait for words.
                print(f"tandem: {failure}", file=sys.stderr, flush=True)
                return 1
    except Failure as failure:
        print(f"tandem: {failure}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except OSError as fault:
        print(f"tandem: {given.fifo}: {fault.strerror}", file=sys.stderr)
        return 1
