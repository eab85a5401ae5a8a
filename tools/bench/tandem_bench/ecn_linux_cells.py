"""The cells of the bench ecn-linux: what access points there are, and the lab's world with them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SECONDS = 30.0

# 802.11g in the lab's profile wifi-g: what a 1500-byte packet takes at a rate, with the mean first backoff, ACK and spaces, in ms. A slow
# access point has the fastest rate that is slower than its packet time allows, and frame errors for the rest (relation 1: T = time / delivery).
AIR_MS = {6: 2.2335, 9: 1.5555, 12: 1.1975, 18: 0.8615, 24: 0.6895}
FAST_MS = 0.3935
FAST_ACK_MS, SLOW_ACK_MS = 0.181, 0.305  # of a TCP ACK, one for every second packet
PAYLOAD_KBIT = 11.584  # 1448 bytes


@dataclass(frozen=True)
class Cell:
    """One download's world. t1 and rtt in ms; flows: TCP downloads that share AP2's uplink, None: no limit there (scenario 1). others: of
    scenario 3, "poor": every access point but the last takes T1, "mixed": their times lie evenly between T1 and the last one's; with "" there
    are two."""

    t1: float = 3
    rtt: int = 25
    flows: int | None = None
    seconds: float = SECONDS
    congestion: str = "cubic"
    aps: int = 2
    others: str = ""

    @property
    def name(self) -> str:
        if self.number == 3:
            return f"{self.aps} access points, others {self.others}"
        return f"T1 {self.t1:g} ms, RTT {self.rtt} ms" if self.number == 1 else f"uplink with {self.flows} others"

    @property
    def number(self) -> int:
        """Of its scenario: 1, 2 and 3 are figures 6a, 6b and 6c."""
        return 3 if self.others else 1 if self.flows is None else 2

    @property
    def times(self) -> list[float]:
        """Packet times of the access points in ms, the best one's last: a connection begins by the first, as by a laptop's."""
        step = (self.t1 - FAST_MS) / (self.aps - 1) if self.others == "mixed" else 0.0
        return [self.t1 - step * place for place in range(self.aps - 1)] + [FAST_MS]

    @property
    def interfaces(self) -> list[str]:
        """The client's, one at each access point."""
        return [f"wlan{place}" for place in range(self.aps)]

    @property
    def calculated(self) -> float:
        """Mb/s of the best single way by the packet times, an ACK for every second packet, and an equal part of the uplink."""
        _, errors = radio(self.t1)
        by_first = PAYLOAD_KBIT / (self.t1 + SLOW_ACK_MS / 2 / (1 - errors))
        by_last = PAYLOAD_KBIT / (FAST_MS + FAST_ACK_MS / 2)
        if self.flows is not None:
            by_last = min(by_last, 25 * 1448 / 1514 / (self.flows + 1))
        return max(by_first, by_last)

    def scenario(self, mptcp: bool) -> str:
        uplink = "" if self.flows is None else f'uplink = "25Mbit"\nuplink_queue = 100\nuplink_flows = {self.flows}\n'
        return f"""[scenario]
name = "ecn-linux"
summary = "{self.name}"
duration = "{self.seconds:g}s"
mptcp = {str(mptcp).lower()}
[wifi]
profile = "wifi-g"
retry_limit = 16
[cell]
enabled = false
[wan]
delay = "{self.rtt / 2}ms"
{"".join(access_point(place, time_ms) for place, time_ms in enumerate(self.times))}{uplink}[[server]]
name = "srv1"
congestion = "{self.congestion}"
"""


def radio(time_ms: float) -> tuple[int, float]:
    """The rate and the frame errors by which a packet takes that long."""
    rate = next((rate for rate, air_ms in sorted(AIR_MS.items()) if air_ms <= time_ms), max(AIR_MS))
    return rate, max(0.0, 1 - AIR_MS[rate] / time_ms)


def access_point(place: int, time_ms: float) -> str:
    """The scenario's section of the one at which that interface begins."""
    head = f'[[ap]]\nname = "ap{place + 1}"\ninterface = "wlan{place}"\n'
    if time_ms == FAST_MS:
        return head + "signal = -50\n"
    rate, errors = radio(time_ms)
    return head + f'signal = -75\nrate = "{rate}"\nframe_error = {errors:.4f}\n'


SCENARIO_1 = tuple(Cell(t1, rtt) for t1 in (1.5, 3, 6) for rtt in (25, 50))
SCENARIO_2 = tuple(Cell(flows=flows) for flows in (0, 1, 3, 6))
# Round trip and packet times as in ecn-many. With two access points there is one other, at either end of the range.
SCENARIO_3 = tuple(Cell(6, 50, aps=aps, others=others) for aps, others in ((2, "poor"), (4, "poor"), (4, "mixed"), (8, "poor"), (8, "mixed")))
QUICK = (Cell(3, 25, seconds=18), Cell(flows=6, seconds=18))
