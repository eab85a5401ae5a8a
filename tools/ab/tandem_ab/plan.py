"""What an experiment will cost, before it begins. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tandem_common import confidence
from tandem_common.duration import clock

from .quantities import count, digits, percent, size

GUESSED_DEVIATION = 0.10  # of a pair's log ratio, before any pair
GUESSED_SECONDS = 10.0  # of a block that takes as long as it takes
ACK_SHARE = 0.02  # of what is downloaded, when all its ACKs leave by cellular: one of 60 bytes for two segments


@dataclass(frozen=True)
class Plan:
    """`most` pairs fit into the time; `needed` give the wanted width if pairs differ as they do (or as guessed)."""

    arms: int
    block_s: float
    guessed_block: bool
    washout_s: float
    most_s: float  # that are left
    until: float
    deviation: float | None  # of the pairs that there are already
    done: int
    rate_mbps: float | None  # of the counted blocks so far, or as the driver's rate suggests
    bytes_of_block: float | None  # of requests and commands, as counted so far
    offload: int  # arms that put ACKs on the cellular link
    steady: bool  # a rate is measured for a time

    @property
    def pair_s(self) -> float:
        return self.arms * (self.block_s + self.washout_s)

    @property
    def most(self) -> int:
        return max(1, int(self.most_s / self.pair_s))

    @property
    def needed(self) -> int | None:
        return confidence.pairs_for_width(self.deviation or GUESSED_DEVIATION, math.log1p(self.until), confidence.shared_alpha(self.arms - 1))

    @property
    def pairs(self) -> int:
        """How many further ones it will come to."""
        return self.most if self.needed is None else min(self.most, max(0, self.needed - self.done))

    def lines(self) -> list[str]:
        """In words for a user."""
        name = "pair" if self.arms == 2 else "round"
        about = "about " if self.guessed_block else ""
        noise = f"pairs differ by {(self.deviation or GUESSED_DEVIATION) * 100:.0f} %, " + ("as so far" if self.deviation else "a guess until there are some")
        needed = f"{self.needed:,}".replace(",", " ") if self.needed else f"more than {confidence.MOST_PAIRS}"
        there = f", {self.done} are there" if self.done else ""
        left = "further " if self.done else ""
        lines = [f"A {name} takes {about}{clock(self.pair_s)}; until +-{self.until * 100:g} % it needs {needed}{there}, if {noise}. "
                 f"At most {left}{clock(self.most_s)}, which is {count(self.most, name)}.",
                 f"It will take about {clock(self.pairs * self.pair_s)} and transfer {self._volume()}"]
        if self.offload:
            lines.append(f"By cellular: {self._cellular()}")
        total = self.done + self.most
        if total < confidence.LEAST:
            lines.append(f"Too little time: below {confidence.LEAST} pairs nothing is claimed; give it at least --most {math.ceil(confidence.LEAST * self.pair_s / 60)}min")
        elif self.needed is None or total < self.needed:
            reach = confidence.half_width(self.deviation or GUESSED_DEVIATION, total, confidence.shared_alpha(self.arms - 1))
            lines.append(f"Too little power for +-{self.until * 100:g} %: with {total} pairs effects below about {percent(reach).lstrip('+')} will stay undecided"
                         + (f"; {self.needed} pairs are needed, --most {math.ceil(self.needed * self.pair_s / 60)}min" if self.needed else ""))
        return lines

    def _bytes(self, rate_mbps: float) -> float:
        return self.pairs * self.arms * self.block_s * rate_mbps / 8e-6

    def _volume(self) -> str:
        if self.steady:
            if self.rate_mbps:
                return f"{size(self._bytes(self.rate_mbps))}, at {digits(self.rate_mbps)} Mb/s"
            return f"{size(self._bytes(10.0))} for every 10 Mb/s that the link carries"
        if self.bytes_of_block:
            return f"{size(self.pairs * self.arms * self.bytes_of_block)}, as much a block as so far"
        return "what the workload transfers each time, times the blocks"

    def _cellular(self) -> str:
        share = ACK_SHARE * self.offload / self.arms
        if not self.steady:
            return f"about {ACK_SHARE * 1e3:.0f} MB for each GB downloaded with offload on"
        rate = self.rate_mbps or 10.0
        return f"about {size(self._bytes(rate) * share)}" + ("" if self.rate_mbps else " for every 10 Mb/s that the link carries")
