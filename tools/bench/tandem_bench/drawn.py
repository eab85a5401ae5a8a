"""Networks drawn at random: a Wi-Fi, what is behind its access point, a cellular network, senders, and what befalls them. Pure; a number gives the same network
everywhere. None of the ranges was chosen by what Tandem does there."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any, Mapping

from . import walks

# How often each is drawn.
SENDERS = {"cubic": 5, "bbr": 3, "reno": 1, "westwood": 0.5, "vegas": 0.5}
PHYS = {"n": 5, "g": 3, "a": 2}
CELLS = {"lte": 6, "lte-trace": 2, "3g": 2}
FLOWS = {1: 5, 2: 2, 4: 2, 8: 1}
MODES = {"drop": 3, "buffer": 1, "fade": 2}


@dataclass
class Network:
    """One network, and the downloads over it."""

    number: int
    sender: str
    flows: int
    rtt_ms: int
    phy: str
    told: list[str] = field(default_factory=list)  # what is special about it, in words
    wifi: str = ""
    cellular: str = "lte"  # profile
    cell: str = ""
    wan: str = ""
    tables: str = ""

    @property
    def name(self) -> str:
        flows = f"{self.flows} x " if self.flows > 1 else ""
        return f"{self.number}: {flows}{self.setting}"

    @property
    def setting(self) -> str:
        """Who sends, over what round trip and air."""
        return walks.setting(self.sender, self.rtt_ms, self.phy)

    @property
    def scenario(self) -> str:
        """The scenario as TOML text."""
        trouble = walks.Trouble(self.wifi, self.cell, self.tables, self.wan)
        return walks.scenario(f"drawn-{self.number}", trouble, phy=self.phy, rtt_ms=self.rtt_ms, sender=self.sender, cellular=self.cellular)


def network(number: int, seconds: float, sender: str = "") -> Network:
    """The network of this number for downloads of so many seconds; with a `sender` this one in place of the drawn one."""
    draw = _Draw(number)
    chosen = draw.one_of(SENDERS)
    drawn = Network(number, sender or chosen, draw.one_of(FLOWS), round(draw.between(8, 300)), draw.one_of(PHYS))
    _access_point(draw, drawn)
    _losses(draw, drawn)
    _neighbours(draw, drawn)
    _wire(draw, drawn)
    _cellular(draw, drawn)
    _silences(draw, drawn, seconds)
    return drawn


class _Draw:
    """What is drawn for one network, in a fixed order."""

    def __init__(self, number: int):
        self._random = random.Random(f"network {number}")

    def one_of(self, weights: Mapping[Any, float]) -> Any:
        return self._random.choices(list(weights), list(weights.values()))[0]

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def between(self, low: float, high: float) -> float:
        """Each factor is equally likely: as many from 1 to 10 as from 10 to 100."""
        return math.exp(self._random.uniform(math.log(low), math.log(high)))

    def evenly(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


def _access_point(draw: _Draw, to: Network) -> None:
    if draw.happens(0.3):
        signal = round(draw.evenly(-78, -50))
        to.wifi += 'rate = "minstrel"\n'
        to.tables += f'\n[[ap]]\nname = "ap1"\nsignal = {signal}\n'
        to.told.append(f"{signal} dBm")
    if draw.happens(0.3):
        to.wifi += 'codel = "20ms"\nqueue = 1000\n'
        to.told.append("CoDel at the access point")
    elif draw.happens(0.4):
        queue = round(draw.between(30, 1000))
        to.wifi += f"queue = {queue}\n"
        to.told.append(f"{queue} packets at the access point")
    if draw.happens(0.3):
        to.wifi += "power_save = true\n"
        to.told.append("power save")


def _losses(draw: _Draw, to: Network) -> None:
    if draw.happens(0.35):
        loss = draw.between(0.0003, 0.02)
        to.wifi += f"loss = {loss:.5f}\n"
        to.told.append(f"{100 * loss:.2g} % loss")
    if draw.happens(0.15):
        rare, burst = draw.between(0.0001, 0.003), draw.between(2, 20)
        to.wifi += f"gilbert_down = {{ p = {rare:.5f}, r = {1 / burst:.3f} }}\n"
        to.told.append(f"bursts of {burst:.0f} lost, one in {1 / rare:.0f}")
    if draw.happens(0.3):
        error = draw.evenly(0.02, 0.3)
        to.wifi += f"frame_error = {error:.2f}\n"
        to.told.append(f"{100 * error:.0f} % of frames repeated")
    if draw.happens(0.1):
        share = draw.evenly(0.03, 0.2)
        to.wifi += f'hidden = {{ share = {share:.2f}, length = "1ms" }}\n'
        to.told.append(f"a hidden station {100 * share:.0f} % of the time")


def _neighbours(draw: _Draw, to: Network) -> None:
    if not draw.happens(0.3):
        return
    for number in range(1, 1 + draw.one_of({1: 3, 2: 2, 3: 1})):
        direction = draw.one_of({"down": 2, "up": 1})
        load = "saturated" if draw.happens(0.25) else f"{draw.between(0.5, 15):.1f}Mbit"
        to.tables += f'\n[[station]]\nname = "sta{number}"\ndirection = "{direction}"\nload = "{load}"\n'
        to.told.append(f"a neighbour {direction} {load}")


def _wire(draw: _Draw, to: Network) -> None:
    if draw.happens(0.5):
        rate, queue = draw.between(2, 200), round(draw.between(10, 1000))
        up = rate * draw.between(0.04, 1)
        to.wan += f'rate_down = "{rate:.1f}Mbit"\nqueue_down = {queue}\nrate_up = "{up:.2f}Mbit"\nqueue_up = {round(draw.between(20, 500))}\n'
        to.told.append(f"wire {rate:.3g}/{up:.2g} Mb/s")
        if draw.happens(0.35):
            to.wan += 'ecn_down = "codel"\nthreshold_down = "5ms"\n'
            to.told.append("with CoDel")
        else:
            to.told.append(f"of {queue} packets")
    elif draw.happens(0.2):
        rate, burst = draw.between(3, 80), draw.between(20, 1000)
        to.wan += f'police_down = "{rate:.1f}Mbit"\npolice_burst_down = "{burst:.0f}kB"\n'
        to.told.append(f"policer {rate:.3g} Mb/s, {burst:.0f} kB")
    if draw.happens(0.25):
        jitter = draw.between(1, 50)
        to.wan += f'jitter = "{jitter:.0f}ms"\n'
        to.told.append(f"jitter {jitter:.0f} ms")
    if draw.happens(0.1):
        loss = draw.between(0.0003, 0.01)
        to.wan += f"loss = {loss:.5f}\n"
        to.told.append(f"{100 * loss:.2g} % lost on the wire")
    if draw.happens(0.1):
        share, later = draw.between(0.001, 0.1), draw.between(1, 30)
        to.wan += f'reorder_down = {share:.4f}\nreorder_later_down = "{later:.0f}ms"\n'
        to.told.append(f"{100 * share:.2g} % later by {later:.0f} ms")


def _cellular(draw: _Draw, to: Network) -> None:
    if draw.happens(0.1):
        to.cell += "enabled = false\n"
        to.told.append("no cellular")
        return
    to.cellular = draw.one_of(CELLS)
    to.told.append(to.cellular)
    if draw.happens(0.5):
        delay = draw.between(10, 150)
        to.cell += f'delay = "{delay:.0f}ms"\n'
        to.told.append(f"{delay:.0f} ms")
    if draw.happens(0.3):
        up = draw.between(0.1, 10)
        if to.cellular != "lte-trace":
            to.cell += f'rate_up = "{up:.2f}Mbit"\n'
            to.told.append(f"{up:.2g} Mb/s up")
    if draw.happens(0.2):
        loss = draw.between(0.001, 0.05)
        to.cell += f"loss = {loss:.4f}\n"
        to.told.append(f"{100 * loss:.2g} % lost there")
    if draw.happens(0.3):
        kind = draw.one_of({"nat": 1, "source_filter": 1})
        to.cell += f"{kind} = true\n"
        to.told.append({"nat": "NAT", "source_filter": "filtered"}[kind])


def _silences(draw: _Draw, to: Network, seconds: float) -> None:
    if draw.happens(0.3):
        for _ in range(draw.one_of({1: 3, 2: 2, 3: 1})):
            at, long, mode = draw.evenly(0.5, seconds - 3), draw.between(0.1, 4), draw.one_of(MODES)
            to.tables += walks.event(at, "blackout", long, mode=f'"{mode}"')
            to.told.append(f"silence {long:.1f} s ({mode})")
    if draw.happens(0.12):
        every = draw.between(1, 8)
        to.tables += walks.event(draw.evenly(0, every), "blackout", 0.08, mode='"buffer"', every=f'"{every:.1f}s"')
        to.told.append(f"off channel 80 ms each {every:.1f} s")
