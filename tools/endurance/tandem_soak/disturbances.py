"""What befalls the laptop: each disturbance begins at random moments of its own, and undoes itself."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter, deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Callable, Sequence

from tandem_lab import Lab, virtual
from tandem_lab.errors import LabError

from .watched import MODULES, Watched
from .world import Laptop

TOGGLES_PER_SECOND = 100
TOGGLING, ALL_ON = 8.0, 6.0  # s, in turn
STRONG, WEAK = -50, (-68, -72, -76)  # dBm: far from a handoff, and where `rate` sees one coming
SETTLES = 5.0  # s after an interface came back: duplicate address detection (RFC 4862), routes
REMEMBERED = 40_000  # notes: a hundred toggles a second, for as long as a transfer may hang, and more
KNOBS = {
    "offload": {"probe_copies": (2, 6), "window_mss": (4, 20, 60), "wifi_ack_ratio": (1, 4, 8)},
    "freeze": {"release_after": ("5ms", "20ms", "100ms")},
    "mirror": {"strategy": ("undo", "range", "replay"), "threshold": (0.0, 0.85, 1.0), "cap": (0, 0.5, 4), "acks": (0, 6, 50), "undo": ("on", "off"), "pace": ("on", "off")},
    "rate": {"uploads": ("on", "on", "off")},
}


@dataclass(frozen=True)
class Disturbance:
    name: str
    every: float  # mean pause, s
    act: Callable[["Chaos", random.Random], bool | None]  # False: it left it at that, and does not count
    lock: str = ""  # what it has to itself meanwhile
    daemon: bool = False  # of no use in a run without the daemon


class Chaos:
    """All disturbances at once, a thread each."""

    def __init__(self, lab: Lab, laptop: Laptop, watched: Watched | None, seed: int | str, seconds: float, which: Sequence[Disturbance] | None = None):
        """`which`: all of them when not given, and a hundred module toggles a second."""
        self.lab, self.laptop, self.watched, self.seed, self.seconds = lab, laptop, watched, seed, seconds
        self._which, self._toggles = DISTURBANCES if which is None else which, which is None and watched is not None
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self._notes: deque[tuple[float, str]] = deque(maxlen=REMEMBERED)
        self.stopping = threading.Event()
        self._taken: set[str] = set()  # interfaces that are away now
        self._given_back = float("-inf")  # when one last came back
        self._locks = {name: threading.Lock() for name in ("wifi", "cell", "daemon", "wlan1", "")}
        self._threads: list[threading.Thread] = []
        self.began = time.monotonic()

    def start(self) -> None:
        self.began = time.monotonic()
        for one in self._which:
            if (self.watched or not one.daemon) and (one.act is not _clock or own_clock()) and (one.act is not _sleep or self.watched and self.watched.can_sleep):
                self._threads.append(threading.Thread(target=self._repeat, args=(one,), daemon=True))
        if self._toggles:
            self._threads += [threading.Thread(target=self._toggle, daemon=True)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        deadline = time.monotonic() + 60
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            self.errors.append("a disturbance did not end within a minute: it may have stood still for long")

    def calm(self) -> None:
        """Everything as it was at the start."""
        for key, value in {"wifi.blackout": "none", "wifi.loss": 0, "cell.down": False, "cell.loss": 0, "cell.nat": False, "cell.source_filter": False}.items():
            self.set(key, value)
        for ap in ("ap1", "ap2"):
            self.set("wifi.signal", STRONG, ap=ap)
        self.laptop.whole()
        self._taken.clear()

    def note(self, words: str) -> None:
        self._notes.append((time.monotonic(), words))

    def since(self, seconds: float, toggles: float) -> list[str]:
        """What befell it in the last so many seconds, each with how long ago; what was asked of the daemon's API for `toggles` seconds only."""
        now = time.monotonic()
        return [f"{at - now:8.3f} s: {words}" for at, words in list(self._notes) if now - at <= (toggles if words.startswith("PUT ") else seconds)]

    def set(self, key: str, value: object, **where: str) -> None:
        """A change of the air or of the cellular gateway."""
        self.note(" ".join([f"{key} = {value}", *where.values()]))
        self.lab.set(key, value, **where)

    def take_away(self, name: str) -> None:
        self._taken.add(name)
        self.laptop.down(name)

    def give_back(self, name: str) -> None:
        self.laptop.up(name)
        self._given_back = time.monotonic()
        self._taken.discard(name)

    def wayless(self, seconds: float) -> bool:
        """Whether in the last so many seconds an interface was away, or had just come back: then a connection may find no route, whatever Tandem does."""
        return bool(self._taken) or time.monotonic() - self._given_back < seconds + SETTLES

    def late(self) -> bool:
        """In the second half of the run the daemon is not killed any more: what it leaks shall be seen."""
        return time.monotonic() - self.began > self.seconds / 2

    def hold(self, seconds: float) -> None:
        self.stopping.wait(seconds)

    def _repeat(self, one: Disturbance) -> None:
        draw = random.Random(f"{self.seed} {one.name}")
        every = min(one.every, self.seconds / 4)  # in a short run everything comes, too
        while not self.stopping.wait(draw.uniform(0.2, 1.8) * every):
            try:
                with self._locks[one.lock] if one.lock else nullcontext():
                    self.note(f"{one.name}: begins")
                    done = one.act(self, draw) is not False
                    self.note(f"{one.name}: over")
                self.counts[one.name] += done
            except Exception as error:  # noqa: BLE001 - whatever it is: a disturbance that ends unsaid would be taken for one that was borne
                self.errors.append(f"{one.name}: {error or type(error).__name__}")

    def _toggle(self) -> None:
        try:
            self._toggle_on_and_on()
        except Exception as error:  # noqa: BLE001 - as above
            self.errors.append(f"module toggles: {error or type(error).__name__}")

    def _toggle_on_and_on(self) -> None:
        """Modules on and off, a hundred times a second as far as the daemon answers; then for some seconds all on, so that they come to act."""
        assert self.watched
        draw, pause = random.Random(f"{self.seed} toggles"), 1.0 / TOGGLES_PER_SECOND
        due = began = time.monotonic()
        while not self.stopping.is_set():
            if time.monotonic() - began > TOGGLING:
                for name in MODULES:
                    self._put(f"/v1/modules/{name}", '{"enabled": true}')
                self.stopping.wait(ALL_ON)
                due = began = time.monotonic()
            body = json.dumps({"enabled": draw.random() < 0.7})
            if self._put(f"/v1/modules/{draw.choice(MODULES)}", body):
                self.counts["module toggles"] += 1
            due = max(due + pause, time.monotonic() - 1.0)
            self.stopping.wait(max(0.0, due - time.monotonic()))

    def _put(self, path: str, body: str) -> bool:
        """Whether it was done. The daemon may not answer just now (stopped, killed); what it refuses was wrong here: a disturbance that disturbs nothing. Raises
        LabError."""
        assert self.watched
        self.note(f"PUT {path} {body}")
        request = f"PUT {path} HTTP/1.1\r\nHost: tandem\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        answer = self.watched.ask(request.encode())
        if answer[9:12] in (b"400", b"404", b"422"):
            raise LabError(f"PUT {path} {body}: refused: {answer.partition(bytes((13, 10)) * 2)[2].decode(errors='replace').strip()[:200]}")
        return b" 200 " in answer[:20]


def _blackout(chaos: Chaos, draw: random.Random) -> None:
    chaos.set("wifi.blackout", draw.choice(["drop", "buffer", "fade"]))
    chaos.hold(draw.choice([draw.uniform(0.05, 0.5), draw.uniform(0.5, 3.0)]))
    chaos.set("wifi.blackout", "none")


def _loss(chaos: Chaos, draw: random.Random) -> None:
    chaos.set("wifi.loss", draw.choice([0.0, 0.001, 0.003, 0.01, 0.03]))


def _signal(chaos: Chaos, draw: random.Random) -> None:
    """It fades within a second, and comes back: no handoff follows."""
    ap, least = draw.choice(["ap1", "ap2"]), draw.choice(WEAK)
    for step in range(1, 6):
        chaos.set("wifi.signal", STRONG + (least - STRONG) * step / 5, ap=ap)
        chaos.hold(0.2)
    chaos.hold(draw.uniform(1.0, 6.0))
    chaos.set("wifi.signal", STRONG, ap=ap)


def _cell_loss(chaos: Chaos, draw: random.Random) -> None:
    chaos.set("cell.loss", draw.choice([0.0, 0.0, 0.01, 0.05]))


def _cell_delay(chaos: Chaos, draw: random.Random) -> None:
    chaos.set("cell.delay", draw.choice(["5ms", "20ms", "60ms", "200ms"]))


def _cell_down(chaos: Chaos, draw: random.Random) -> None:
    chaos.set("cell.down", True)
    chaos.hold(draw.uniform(0.1, 4.0))
    chaos.set("cell.down", False)


def _nat(chaos: Chaos, draw: random.Random) -> None:
    chaos.set("cell.nat", draw.random() < 0.5)
    chaos.set("cell.source_filter", draw.random() < 0.4)


def _flap(*names: str) -> Callable[[Chaos, random.Random], None]:
    def act(chaos: Chaos, draw: random.Random) -> None:
        for name in names:
            chaos.take_away(name)
        chaos.hold(draw.uniform(0.05, 1.5))
        for name in names:
            chaos.give_back(name)

    return act


def _pause(chaos: Chaos, draw: random.Random) -> None:
    assert chaos.watched
    chaos.watched.pause(draw.uniform(0.05, 3.0))


def _kill(how: str) -> Callable[[Chaos, random.Random], bool]:
    def act(chaos: Chaos, _: random.Random) -> bool:
        assert chaos.watched
        if chaos.late():
            return False
        getattr(chaos.watched, how)()
        return True

    return act


def _sleep(chaos: Chaos, draw: random.Random) -> None:
    """Modules begin anew each time: were it oftener, they would hardly act."""
    assert chaos.watched
    chaos.watched.sleep(draw.choice([1, 10, 300, 8 * 3600]))


def _upgrade(chaos: Chaos, draw: random.Random) -> bool:
    assert chaos.watched
    if chaos.late():
        return False
    chaos.watched.upgrade(draw.uniform(0.1, 3.0))
    return True


def _reload(chaos: Chaos, draw: random.Random) -> None:
    """With another file, at times with a mistake in it."""
    assert chaos.watched
    window, wrong = draw.choice([4, 20, 40]), draw.random() < 0.2
    chaos.watched.reload(chaos.watched.text.replace("[modules.offload]\n", f"[modules.offload]\nwindow_mss = {window}\n") + ("\nnonsense = [\n" if wrong else ""))


def _knob(chaos: Chaos, draw: random.Random) -> None:
    module = draw.choice(list(KNOBS))
    knob = draw.choice(list(KNOBS[module]))
    chaos._put(f"/v1/modules/{module}/knobs/{knob}", json.dumps({"value": draw.choice(KNOBS[module][knob])}))  # noqa: SLF001


def _look(chaos: Chaos, draw: random.Random) -> None:
    assert chaos.watched
    path = draw.choice(["/v1/status", "/v1/flows", "/metrics", "/v1/modules", "/v1/links", "/v1/budget", "/v1/networks", "/v1/recording?last_s=2", "/v1/doctor"])
    chaos.watched.ask(f"GET {path} HTTP/1.1\r\nHost: tandem\r\nConnection: close\r\n\r\n".encode())


def _announce(chaos: Chaos, draw: random.Random) -> None:
    body = json.dumps({"what": draw.choice(["risk", "down", "up"]), "for_s": draw.uniform(0.05, 0.6)})
    assert chaos.watched
    chaos.watched.ask(f"POST /v1/links/wifi/announce HTTP/1.1\r\nHost: tandem\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())


def _junk(chaos: Chaos, draw: random.Random) -> None:
    assert chaos.watched
    junk = draw.choice([draw.randbytes(draw.randrange(1, 20000)), b"GET " + b"/" * 9000 + b" HTTP/1.1\r\n\r\n", b"PUT /v1/modules/offload HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n{",
                        b"PUT /v1/modules/offload HTTP/1.1\r\nContent-Length: 40\r\n\r\n" + b"[" * 40, b"GET /v1/status HTTP/1.1\r\n"])
    chaos.watched.ask(junk, timeout=0.5)


def _flush(chaos: Chaos, draw: random.Random) -> None:
    """Others take rules away that are not theirs."""
    for command in draw.choice([[["nft", "flush", "ruleset"]], [["iptables", "-t", "mangle", "-F"], ["ip6tables", "-t", "mangle", "-F"]],
                                [["ip", "rule", "del", "priority", "8484"], ["ip", "-6", "rule", "del", "priority", "8484"]], [["ip", "route", "flush", "table", "8484"]]]):
        chaos.lab.client.run(command, check=False)


def own_clock() -> bool:
    """Whether the wall clock is nobody else's."""
    return bool(virtual.inside() or os.environ.get("TANDEM_VM"))


def _clock(_: Chaos, draw: random.Random) -> None:
    """The wall clock jumps, as after a suspend or by NTP."""
    with suppress(OSError):
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + draw.choice([-86400.0, -3600.0, -5.0, 5.0, 3600.0, 40 * 86400.0]))


DISTURBANCES = (
    Disturbance("blackouts of Wi-Fi", 6, _blackout, "wifi"),
    Disturbance("changes of Wi-Fi loss", 4, _loss),
    Disturbance("fades of the signal", 12, _signal),
    Disturbance("changes of cellular loss", 7, _cell_loss),
    Disturbance("changes of cellular delay", 9, _cell_delay),
    Disturbance("cellular outages", 11, _cell_down, "cell"),
    Disturbance("changes of NAT and source filter", 5, _nat),
    Disturbance("flaps of wlan0", 25, _flap("wlan0"), "wifi"),
    Disturbance("flaps of wlan1", 20, _flap("wlan1"), "wlan1"),
    Disturbance("flaps of cell0", 15, _flap("cell0"), "cell"),
    Disturbance("SIGSTOPs of the daemon", 12, _pause, daemon=True),
    Disturbance("kill -9 of the daemon", 20, _kill("kill"), daemon=True),
    Disturbance("kill -9 of daemon and keeper", 45, _kill("kill_both"), daemon=True),
    Disturbance("kill -9 of the keeper", 60, _kill("kill_keeper"), daemon=True),
    Disturbance("restarts in order", 40, _kill("restart"), daemon=True),
    Disturbance("upgrades", 50, _upgrade, daemon=True),
    Disturbance("suspends", 40, _sleep, daemon=True),
    Disturbance("reloads", 3, _reload, daemon=True),
    Disturbance("changes of knobs", 0.5, _knob, daemon=True),
    Disturbance("questions to the API", 0.3, _look, daemon=True),
    Disturbance("announcements", 3, _announce, daemon=True),
    Disturbance("junk to the control socket", 4, _junk, daemon=True),
    Disturbance("flushes of rules and routes by others", 30, _flush, daemon=True),
    Disturbance("steps of the clock", 15, _clock),
)
# What befalls a laptop in anybody's day: nobody kills its daemon or turns its knobs.
ORDINARY = tuple(one for one in DISTURBANCES if not one.daemon and one.act is not _clock)
