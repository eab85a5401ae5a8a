"""Quantities as a user writes and reads them. Pure."""

from __future__ import annotations

import math
import re

from tandem_common.errors import BadInput

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def duration(name: str, text: str, least: float = 0.0) -> float:
    """"10s", "40min": seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|min|h|d)", text)
    if not match or float(match[1]) * _SECONDS[match[2]] < least:
        raise BadInput(f"{name} {text}: allowed: a number with its unit (ms, s, min, h, d)" + (f", at least {least:g}s" if least else ""))
    return float(match[1]) * _SECONDS[match[2]]


def share(name: str, text: str, least: float, most: float) -> float:
    """"5%" or "0.05": 0.05."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if not least <= value <= most:
        raise BadInput(f"{name} {text}: allowed: {least * 100:g}% to {most * 100:g}%")
    return value


def percent(log_ratio: float) -> str:
    """A log of a ratio as a signed share: +5.1 %. Infinite ones are not known."""
    if math.isinf(log_ratio):
        return "?"
    value = math.expm1(log_ratio) * 100
    return f"{value:+.1f} %" if abs(value) < 9.95 else f"{value:+.0f} %"


def size(number: float) -> str:
    """Bytes in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}" if abs(number) < 1000 else f"{number:.0f} {unit}"
        number /= 1000
    raise AssertionError


def count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}".replace(",", " ")
