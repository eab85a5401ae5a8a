"""Files that are there whole or not at all."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterable, Iterator


def is_special(path: Path) -> bool:
    """A device or a pipe (/dev/null, /dev/stdout), whose place no file may take."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to. It becomes `path` when all went well and is removed otherwise: a reader sees the old or the new
    content, never half of it, and a disk that is full keeps the old one. What is special is written to itself."""
    if is_special(path):
        yield path
        return
    fresh = path.with_name(path.name + ".new")
    try:
        yield fresh
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def unwritable(files: Iterable[tuple[str, Path]], directories: Iterable[tuple[str, Path]] = ()) -> str:
    """What is wrong with places that will be written to, each with the option that names it; empty: nothing. Hours may pass until results are, and then they are lost."""
    places = []
    for option, path in files:
        if path.is_dir():
            return f"{option} {path}: is a directory; the name of a file is needed"
        if not is_special(path):
            places.append((option, path, path.parent))
    for option, path, directory in [*places, *((option, path, path) for option, path in directories)]:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            return f"{option} {path}: cannot be written to: {error.strerror}"
    return ""
