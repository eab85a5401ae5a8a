"""What goes wrong, in words for the user."""

from __future__ import annotations


class TraceError(Exception):
    """A failure: exit code 1."""

    code = 1


class BadInput(TraceError):
    """Wrong usage, or a file that cannot be read: exit code 2."""

    code = 2
