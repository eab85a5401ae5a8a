"""What can go wrong in a way that the user can mend."""

from __future__ import annotations


class LabError(Exception):
    """A failure: what failed, why, what to do. `code` is the exit code of the command line."""

    code = 1


class BadInput(LabError):
    """Wrong usage or a bad scenario: the text names file, line, value and what is allowed."""

    code = 2
