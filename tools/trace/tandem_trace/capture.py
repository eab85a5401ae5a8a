"""`tandem trace capture`: what the running daemon records from now on, of some flows and modules if wanted, as one pcapng file."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Callable, Iterator

from tandem_common import signals
from tandem_common.amounts import count, size
from tandem_common.control import Daemon
from tandem_common.errors import BadInput, Failure
from tandem_common.pcapng import PACKET

from .looks import Looks, News, with_drop_count
from .selection import Selection

BEFORE_S = 1.5  # the daemon writes down once a second what a replay begins with
LONGEST_S, SHORTEST_S = 0.5, 0.05  # between two looks
MUCH, LITTLE = 1 << 20, 1 << 18  # bytes of one look: the recorder has 4 MiB unless configured otherwise, so it is looked at in time
RESTARTED = "the daemon was started anew, so this is where the capture ends"


@dataclass
class Tally:
    seen: int = 0  # packets that were recorded
    kept: int = 0
    lost: int = 0  # packets overwritten between two looks
    lost_inputs: int = 0
    written: int = 0  # bytes

    def words(self) -> str:
        of = f" of {count(self.seen, 'recorded packet')}" if self.seen != self.kept else ""
        return f"{count(self.kept, 'packet')}{of}, {size(self.written)}" + (f", {count(self.lost, 'packet')} LOST" if self.lost else "")


@dataclass
class Capture:
    """One capture into `out`. It ends after `for_s` seconds, when `ended` is set, or with a Failure; `out` is a valid file after each step."""

    daemon: Daemon
    out: BinaryIO
    selection: Selection
    for_s: float | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    told: Callable[[Tally, float], None] = lambda tally, after_s: None
    clock: Callable[[], float] = time.monotonic
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._looks, self._missing, self._interval_s = Looks(since_s=BEFORE_S), 0, LONGEST_S

    def run(self) -> None:
        begun = self.clock()
        self._look()
        while True:
            left = self.for_s - (self.clock() - begun) if self.for_s is not None else self._interval_s
            last = self.ended.wait(max(min(self._interval_s, left), 0.0)) or left <= self._interval_s and self.for_s is not None
            self._look()
            self.told(self.tally, self.clock() - begun)
            if last:
                return

    def _look(self) -> None:
        recording = self.daemon.fetch(self._looks.target())
        news = self._looks.news(recording)
        if news.restarted:
            raise Failure(RESTARTED)
        self._write(news)
        if len(recording) > MUCH or news.lost:
            self._interval_s = max(self._interval_s / 2, SHORTEST_S)
        elif len(recording) < LITTLE:
            self._interval_s = min(self._interval_s * 2, LONGEST_S)

    def _write(self, news: News) -> None:
        self._missing += news.lost
        tally, parts = Tally(self.tally.seen, self.tally.kept, self.tally.lost + news.lost, self.tally.lost_inputs + news.lost_inputs), [news.head]
        for block in news.entries:
            if block.kind != PACKET:
                # Of a part of the packets the chain cannot be asked again.
                parts += [block.raw] if self.selection.all else []
                continue
            tally.seen += 1
            if not self.selection.takes(block.raw):
                continue
            tally.kept += 1
            parts.append(with_drop_count(block.raw, self._missing) if self._missing else block.raw)
            self._missing = 0
        content = b"".join(parts)
        self.out.write(content)
        self.out.flush()
        tally.written = self.tally.written + len(content)
        self.tally = tally


@contextmanager
def _file(path: Path) -> Iterator[BinaryIO]:
    """For its owner only, as it holds packets. It has its name once it is whole; a disk that is full leaves the looks that had room."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb", buffering=0) as out:
        try:
            yield _Whole(out)  # type: ignore[misc]
        finally:
            if os.fstat(out.fileno()).st_size == 0:
                fresh.unlink()
            else:
                os.fsync(out.fileno())
                fresh.replace(path)


class _Whole:
    """Writes all of a piece or, when that fails, nothing of it."""

    def __init__(self, out: BinaryIO):
        self._out = out

    def write(self, content: bytes) -> None:
        before, left = self._out.tell(), memoryview(content)
        try:
            while left:
                left = left[self._out.write(left):]
        except OSError:
            self._out.seek(before)
            self._out.truncate()
            raise

    def flush(self) -> None:
        pass


@contextmanager
def _signals(ended: threading.Event) -> Iterator[None]:
    """Ctrl-C, the end of the terminal or of the session set `ended`; a second one is as ever."""
    names = signals.that_end()

    def end(*_: object) -> None:
        ended.set()
        for name, handler in before.items():
            signal.signal(name, handler)

    before = {name: signal.signal(name, end) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _progress(tally: Tally, after_s: float) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{after_s:.0f} s: {tally.words()}")
        sys.stderr.flush()


def _need_modules(daemon: Daemon, names: tuple[str, ...]) -> None:
    known = daemon.modules() if names else {}
    for name in names:
        if name not in known:
            raise BadInput(f"--module {name}: no such module; there are {', '.join(known)}")


def capture(daemon: Daemon, output: str, selection: Selection, for_s: float | None) -> str:
    """Writes the file, or standard output for "-"; what to tell the user. Raises Failure: what came before it is in the file, and it says so."""
    _need_modules(daemon, selection.modules)
    ended, fault = threading.Event(), None
    with _signals(ended):
        if output == "-":
            work = Capture(daemon, sys.stdout.buffer, selection, for_s, ended)
            try:
                work.run()
            except BrokenPipeError:  # the reader has enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            with _file(Path(output)) as out:
                work = Capture(daemon, out, selection, for_s, ended, _progress)
                try:
                    work.run()
                except Failure as error:
                    fault = error
                except OSError as error:
                    fault = Failure(f"{output}: {error.strerror}")
            if sys.stderr.isatty():
                sys.stderr.write("\r\x1b[K")
    words = f"{output}: {work.tally.words()}"
    if work.tally.lost or work.tally.lost_inputs:
        words += "; the recorder was overwritten between two looks (recorder.bytes in the configuration), so `tandem trace replay` is right up to there only"
    if fault is None:
        return words
    raise type(fault)(f"{fault}; {words}" if work.tally.written else str(fault)) from fault
