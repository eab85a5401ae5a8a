"""Amounts as a user reads them. Pure."""

from __future__ import annotations


def size(number: float) -> str:
    """Bytes in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}" if abs(number) < 1000 else f"{number:.0f} {unit}"
        number /= 1000
    raise AssertionError


def count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}".replace(",", " ")
