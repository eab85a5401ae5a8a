"""Lengths of time in words."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """1:05, 12:00, 1:02:03."""
    whole = int(seconds + 0.5)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
