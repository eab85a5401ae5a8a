"""Lengths of time in words."""

from __future__ import annotations

import re

from .errors import BadInput

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def clock(seconds: float) -> str:
    """1:05, 12:00, 1:02:03."""
    whole = int(seconds + 0.5)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def duration(name: str, text: str, least: float = 0.0) -> float:
    """"10s", "40min": seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|min|h|d)", text)
    if not match or float(match[1]) * _SECONDS[match[2]] < least:
        raise BadInput(f"{name} {text}: allowed: a number with its unit (ms, s, min, h, d)" + (f", at least {least:g}s" if least else ""))
    return float(match[1]) * _SECONDS[match[2]]
