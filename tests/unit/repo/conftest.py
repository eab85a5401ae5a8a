"""The files of the repository, as git knows them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@cache
def tracked() -> tuple[Path, ...]:
    """Files under version control that are there; without git every file outside build directories."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"], capture_output=True)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not path.relative_to(ROOT).parts[0].startswith((".", "build"))]
    return tuple(path for path in found if path.is_file() and not path.is_symlink())


def first_line(path: Path) -> str:
    with open(path, "rb") as file:
        return file.readline(200).decode(errors="replace").rstrip("\n")


def text(path: Path) -> str | None:
    """The content, None for a binary file."""
    data = path.read_bytes()
    return None if b"\0" in data[:8192] else data.decode(errors="replace")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))
