"""One at a time."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


@contextmanager
def locked(file: Path, busy: Exception) -> Iterator[None]:
    """While the `with` lasts nobody else has this file's lock, which ends with the process. Raises `busy` where somebody has it, and OSError."""
    with open(file, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        yield
