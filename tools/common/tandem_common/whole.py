"""Files that are there whole or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to. It becomes `path` when all went well and is removed otherwise: a reader sees the old or the new
    content, never half of it, and a disk that is full keeps the old one."""
    fresh = path.with_name(path.name + ".new")
    try:
        yield fresh
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
