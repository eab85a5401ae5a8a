"""What ends the program, in words for a user."""

from __future__ import annotations


class Failure(Exception):
    """What failed, why, and what to do."""

    code = 1


class BadInput(Failure):
    """Something in the command is not allowed; the text says what is."""

    code = 2
