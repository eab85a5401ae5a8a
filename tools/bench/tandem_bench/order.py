"""The order of runs: every arm of a case on equal seeds, the order turned from round to round. Pure."""

from __future__ import annotations

from typing import Sequence, TypeVar

Item = TypeVar("Item")


def turned(items: Sequence[Item], number: int) -> list[Item]:
    """The items in the order of round `number` (from 0): rotated by it, and backwards in every other turn of the wheel.

    Over 2 n rounds of n items, each stands equally often at each place, before and behind each other: what drifts slowly favours
    none. With two items the order simply alternates.
    """
    if not items:
        return []
    shift = number % len(items)
    wheel = list(items[shift:]) + list(items[:shift])
    if len(items) > 2 and (number // len(items)) % 2:
        wheel.reverse()
    return wheel


def seeds_of(first: int, rounds: int) -> list[int]:
    """The seeds of a case's rounds."""
    return list(range(first, first + rounds))
