"""Quantities as a user writes and reads them. Pure."""

from __future__ import annotations

import math
import re

from tandem_common.amounts import count, digits, size
from tandem_common.duration import duration
from tandem_common.errors import BadInput

__all__ = ["count", "digits", "duration", "percent", "share", "size"]


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
