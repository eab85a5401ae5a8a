"""Standard output that cannot be written, in words for a user."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import Any, Iterator


class _Descriptor(io.FileIO):
    """Remembers what went wrong, to tell it from the faults of other files."""

    problem: OSError | None = None

    def write(self, data: Any) -> int | None:
        try:
            return super().write(data)
        except OSError as error:
            self.problem = error
            raise


def _observed() -> _Descriptor:
    """The file below sys.stdout, which is put together anew as it was."""
    before = sys.stdout
    if before is None:  # closed from the first: nobody wants it
        before = open(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
    raw = _Descriptor(before.fileno(), "w", closefd=False)
    buffered = isinstance(before.buffer, io.BufferedWriter)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw) if buffered else raw, before.encoding, before.errors, line_buffering=before.line_buffering,  # type: ignore[arg-type]
                                  write_through=not buffered)
    return raw


def _fault() -> OSError | None:
    """Writes out what is kept, and gives why that cannot be."""
    try:
        sys.stdout.flush()
        return None
    except OSError as error:
        return error


def is_of_output(error: OSError) -> bool:
    """Whether standard output failed with it: written_out() tells of that, in the same words for every program."""
    buffer = getattr(sys.stdout, "buffer", None)
    return error is getattr(getattr(buffer, "raw", buffer), "problem", None)


@contextmanager
def written_out(program: str) -> Iterator[None]:
    """Around all that a program does, argparse's --help included: it ends 1 where its output cannot be written, and says why. A reader of a pipe who has
    gone has had enough, and nobody is told."""
    raw = _observed()
    code: object = 0
    try:
        yield
        fault = _fault()
    except SystemExit as ended:
        code, fault = ended.code, _fault()
        # From Python 3.12 on argparse says nothing of help that could not be written, and an unbuffered stream keeps nothing of it.
        if fault is None and code in (None, 0) and not isinstance(raw.problem, BrokenPipeError):
            fault = raw.problem
        if fault is None:
            raise
    except OSError as error:
        if error is not raw.problem:
            raise
        fault = error
    if fault is None:
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter would complain once more at its end
    if not isinstance(fault, BrokenPipeError):
        print(f"{program}: the output cannot be written: {fault.strerror}", file=sys.stderr)
    raise SystemExit(1 if code in (None, 0) else code)
