"""Transfers that stand still, while their sockets can still be looked at."""

from __future__ import annotations

from typing import Any

# s without a byte. What disturbs lasts 3 s at most; a retransmission that was lost then comes several seconds later.
STILL = 15.0


class Stalls:
    """Of what is under way: each transfer that has brought nothing for so long, told once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], tuple[int, float, bool]] = {}  # bytes, since when, told

    def look(self, under_way: list[dict[str, Any]], now: float) -> list[dict[str, Any]]:
        before, self._seen = self._seen, {}
        found = []
        for one in under_way:
            if "port" not in one:  # still connecting
                continue
            name = one["port"], one["began"]
            amount, since, told = before.get(name, (-1, now, False))
            if amount != one["bytes"]:
                amount, since = one["bytes"], now
            if now - since >= STILL and not told:
                told = True
                found.append(one)
            self._seen[name] = amount, since, told
        return found
