"""What a person sees: tables, and progress as a bar on a terminal or as plain lines elsewhere."""

from __future__ import annotations

import re
import sys
import time
from typing import Sequence, TextIO


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Columns padded to their widest cell; cells that look like numbers stand to the right."""
    lines = [list(head)] if head else []
    lines += [list(map(str, row)) for row in rows]
    if not lines:
        return ""
    count = max(len(line) for line in lines)
    for line in lines:
        line += [""] * (count - len(line))
    widths = [max(len(line[column]) for line in lines) for column in range(count)]
    right = [all(_numeric(line[column]) for line in lines[1 if head else 0:] if line[column]) for column in range(count)]
    text = ["  ".join(cell.rjust(width) if to_right else cell.ljust(width)
                      for cell, width, to_right in zip(line, widths, right)).rstrip() for line in lines]
    if head:
        text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text)


def _numeric(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9]+([.][0-9]+)?( ?[A-Za-z/%]+)?", cell) is not None


class Progress:
    """Live progress of a download of known duration."""

    def __init__(self, label: str, seconds: float, out: TextIO | None = None):
        self._label, self._seconds = label, seconds
        self._out = out or sys.stderr
        self._bar = self._out.isatty()
        self._shown = 0.0
        self._history: list[tuple[float, int]] = [(0.0, 0)]

    def __call__(self, now: float, total: int) -> None:
        """Shows where things stand; cheap to call often."""
        self._history = [entry for entry in self._history if entry[0] > now - 1.05][-20:] + [(now, total)]
        if self._bar and now - self._shown < 0.2 or not self._bar and now - self._shown < 1.0:
            return
        self._shown = now
        since, before = self._history[0]
        rate = (total - before) * 8e-6 / (now - since) if now > since else 0.0
        mean = total * 8e-6 / now if now > 0 else 0.0
        words = f"{now:5.1f} of {self._seconds:g} s  {rate:7.2f} Mb/s  mean {mean:7.2f} Mb/s"
        if self._bar:
            filled = min(30, int(30 * now / self._seconds))
            self._out.write(f"\r{self._label}  [{'#' * filled}{'.' * (30 - filled)}] {words}\x1b[K")
        else:
            self._out.write(f"{self._label}  {words}\n")
        self._out.flush()

    def end(self) -> None:
        if self._bar:
            self._out.write("\r\x1b[K")
            self._out.flush()


def wait_message(text: str, out: TextIO | None = None) -> "Waiting":
    return Waiting(text, out or sys.stderr)


class Waiting:
    """Says that something takes a moment, and how long it took: `with wait_message("lab up"): ...`."""

    def __init__(self, text: str, out: TextIO):
        self._text, self._out = text, out
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()
        if self._out.isatty():
            self._out.write(f"{self._text} ...")
            self._out.flush()

    def __exit__(self, kind: object, *_: object) -> None:
        start = "\r\x1b[K" if self._out.isatty() else ""
        done = "" if kind else f"{self._text}: {time.monotonic() - self._began:.1f} s\n"
        self._out.write(start + done)
        self._out.flush()
