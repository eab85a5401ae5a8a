"""Amounts as a user reads them. Pure."""

from __future__ import annotations


def size(number: float) -> str:
    """Bytes in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 999.5 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{digits(number)} {unit}"
        number /= 1000
    raise AssertionError


def digits(number: float) -> str:
    """Three significant digits, never in powers of ten."""
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:.0f}"


def count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}".replace(",", " ")
