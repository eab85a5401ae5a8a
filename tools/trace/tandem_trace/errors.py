"""What goes wrong, in words for the user."""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """A failure: exit code 1."""

    code = 1


class BadInput(TraceError):
    """Wrong usage, or a file that cannot be read: exit code 2."""

    code = 2


def need_file(output: Path) -> None:
    """Raises BadInput for what a finished file would take the name of though it is none: a device, a pipe, a directory."""
    if output.exists() and not output.is_file():
        raise BadInput(f"-o {output}: is no file, and would be replaced by one; another name is needed")
