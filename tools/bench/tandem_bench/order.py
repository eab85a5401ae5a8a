"""The order of runs: every arm of a case on equal seeds, the order tossed anew in each round. Pure."""

from __future__ import annotations

import random
from typing import Sequence, TypeVar

Item = TypeVar("Item")


def tossed(items: Sequence[Item], case: str, seed: int) -> list[Item]:
    """The items in the order of the round of `seed`, each order as likely as any other.

    A strict order is beaten by any disturbance of its period, which favours the same arm each time; chance has no period. The same case and
    seed give the same order.
    """
    order = list(items)
    random.Random(f"{case}, {seed}").shuffle(order)
    return order


def seeds_of(first: int, rounds: int) -> list[int]:
    """The seeds of a case's rounds."""
    return list(range(first, first + rounds))
