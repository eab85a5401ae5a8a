"""What can befall a Wi-Fi download, as pieces of scenario files: losses, blackouts, walks, neighbours, cellular networks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from tandem_lab import foreign


@dataclass(frozen=True)
class Trouble:
    """Additions to a scenario: keys of [wifi], [cell] and [wan], and further tables."""

    wifi: str = ""
    cell: str = ""
    tables: str = ""
    wan: str = ""


def event(at: float, what: str, lasts: float | None = None, **keys: str) -> str:
    """One [[timeline]] table; `keys` are written as they are."""
    lines = [f'at = "{at:g}s"', f'what = "{what}"', *([f'for = "{lasts:g}s"'] if lasts is not None else []),
             *(f"{key} = {value}" for key, value in keys.items())]
    return "\n[[timeline]]\n" + "\n".join(lines) + "\n"


def blackouts(*when: tuple[float, float]) -> str:
    """Silence of the air: (begin, length) each."""
    return "".join(event(begin, "blackout", length, mode='"drop"') for begin, length in when)


@dataclass(frozen=True)
class Stop:
    """An access point on the way: how its signal changes (seconds, dBm), and when the client comes to it."""

    signal: Sequence[tuple[float, float]]
    arrives: float = 0.0
    channel: int = 1


def access_points(stops: Sequence[Stop], gap: float) -> str:
    """The access points of a walk and the handoffs between them; the client is at none for `gap` seconds before each arrival."""
    text = "".join(f'\n[[ap]]\nname = "ap{number}"\nchannel = {stop.channel}\n' for number, stop in enumerate(stops, 1))
    for number, stop in enumerate(stops, 1):
        points = ", ".join(f'["{at:g}s", {dbm:g}]' for at, dbm in stop.signal)
        text += event(0, "signal", ap=f'"ap{number}"', points=f"[{points}]")
        if number > 1:
            text += event(stop.arrives - gap, "handoff", ap=f'"ap{number}"', gap=f'"{gap:g}s"')
    return text


def short_walk(seconds: float) -> Trouble:
    """Past three access points with rate control in so many seconds, a handoff after each third."""
    one, two = seconds / 3, 2 * seconds / 3
    return Trouble('rate = "minstrel"\n', tables=access_points((
        Stop([(0, -45), (one, -80)]),
        Stop([(0, -88), (one, -62), ((one + two) / 2, -48), (two, -80)], one, 6),
        Stop([(one, -90), (two, -60), (seconds, -45)], two)), 0.06))


def scenario(name: str, trouble: Trouble, *, phy: str, rtt_ms: int, sender: str, cellular: str = "lte", relay: bool = False) -> str:
    """One server behind Wi-Fi of this PHY, with a cellular network of this profile beside it, and what befalls it, as TOML text. The server has the sender's congestion control, and any one
    where a stack that is not Linux sends in its place. Half of the round trip is each way on the WAN. `relay`: the client reaches it through a relay
    of its own."""
    congestion = "cubic" if sender in foreign.STACKS else sender
    return (f'[scenario]\nname = "{name}"\nduration = "600s"\nrelay = {str(relay).lower()}\n[wifi]\nprofile = "wifi-{phy}"\n{trouble.wifi}'
            f'[cell]\nprofile = "{cellular}"\n{trouble.cell}[wan]\ndelay = "{rtt_ms / 2:g}ms"\n{trouble.wan}'
            f'[[server]]\nname = "srv1"\ncongestion = "{congestion}"\n{trouble.tables}')


def setting(sender: str, rtt_ms: int, phy: str) -> str:
    """How the names of cells end: congestion control of the server, RTT, PHY."""
    return f"{sender}, {rtt_ms} ms, 802.11{phy}"


def troubles(seconds: float) -> Mapping[str, Trouble]:
    """By name, for a download of so many seconds. The cellular networks that are filtered or translated go with a blackout: without one only
    `offload` would look for them."""
    one_blackout = blackouts((0.4 * seconds, 2.0))
    return {
        "no loss": Trouble(),
        "0.1 % loss": Trouble("loss_down = 0.001\n"),
        "0.3 % loss": Trouble("loss_down = 0.003\n"),
        "1 % loss": Trouble("loss_down = 0.01\n"),
        "blackouts": Trouble(tables=blackouts((seconds / 3, 2.0), (0.75 * seconds, 0.7))),
        "walk": short_walk(seconds),
        "busy channel": Trouble(tables='\n[[station]]\nname = "sta1"\ndirection = "up"\nload = "saturated"\n'),
        "filtered cellular": Trouble(cell="source_filter = true\n", tables=one_blackout),
        "cellular NAT": Trouble(cell="nat = true\n", tables=one_blackout),
    }
