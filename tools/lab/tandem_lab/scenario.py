"""Scenario files: finding them, checking them, and the part of them that concerns namespaces and servers.

The emulator is the one that knows the whole schema (docs/lab-scenarios.md) and checks it; here only what this side
carries out is read.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from . import system
from .errors import BadInput, LabError

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"

CONGESTION_CONTROLS = ("cubic", "reno", "bbr", "dctcp", "vegas", "westwood")
# Names become parts of namespaces' and devices' names.
_SERVER_NAME = re.compile(r"[a-z0-9]{1,5}")
_AP_NAME = re.compile(r"[a-z0-9]{1,8}")
_TAKEN = ("client", "cgw", "wan", "relay")
# An access point's wire has its name in the WAN's namespace: there is a device of that name already, or settings of all devices (ip-sysctl).
_NO_DEVICE = ("lo", "all", "default")
FIREWALLS = ("none", "drop", "reject")


@dataclass(frozen=True)
class Server:
    """One server namespace."""

    name: str
    congestion: str = "cubic"


@dataclass(frozen=True)
class Uplink:
    """A limit of the wire between an access point and the WAN, and who else uses it."""

    rate: float = 0.0  # bit/s; 0: no limit
    queue: int = 100  # packets
    flows: int = 0  # downloads of others behind the access point


@dataclass(frozen=True)
class Scenario:
    """What the namespaces and servers need to know of a scenario file."""

    path: Path
    name: str
    summary: str
    duration: float  # seconds
    seed: int
    aps: tuple[str, ...]
    servers: tuple[Server, ...]
    cell: bool
    nat: bool
    source_filter: bool
    firewall: str  # of the router behind the access points: none, drop, reject
    wifi_nat: bool
    ecn: bool  # some link marks: the client's TCP asks for ECN
    interfaces: tuple[str, ...] = ("ap1",)  # the access point at which wlan0, wlan1, ... begin
    visitors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by access point: the interfaces that are, or come, there
    uplinks: Mapping[str, Uplink] = field(default_factory=dict)  # by access point
    relay: bool = False  # tunnels by both links to a relay of the client's own
    mptcp: bool = False  # an MPTCP endpoint for each Wi-Fi interface


def find(name: str | Path) -> Path:
    """The file of a scenario, given by path or by the name of one that comes with the lab."""
    path = Path(name)
    try:
        if path.is_file():
            return path.resolve()
    except OSError as error:  # it may not be looked at, or no file can have such a name
        raise BadInput(f"scenario {name}: {error.strerror}") from error
    if path.suffix == "" and (SCENARIOS / f"{name}.toml").is_file():
        return SCENARIOS / f"{name}.toml"
    known = ", ".join(sorted(file.stem for file in SCENARIOS.glob("*.toml"))) or "none"
    raise BadInput(f"scenario {name}: no such file, and no scenario of that name; allowed: a file, or one of: {known}")


def shipped() -> list[Path]:
    """The scenario files that come with the lab, by name."""
    return sorted(SCENARIOS.glob("*.toml"))


def _line_of(path: Path, table: str, nth: int) -> int:
    """The line of the nth [[table]], for error messages; 1 when it is not written down."""
    lines = [number for number, line in enumerate(path.read_text().splitlines(), 1) if line.strip().startswith(f"[[{table}]]")]
    return lines[nth] if nth < len(lines) else 1


def parse_value(text: str) -> Any:
    """A value as typed after `--set key=`: a TOML value where it is one that the emulator can be told, otherwise plain text ("60ms", also "nan" and dates)."""
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text
    return value if _can_be_told(value) else text


def _can_be_told(value: Any) -> bool:
    if isinstance(value, (list, dict)):
        return all(map(_can_be_told, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (bool, int, str)) or isinstance(value, float) and math.isfinite(value)


def parse_override(word: str) -> tuple[str, Any]:
    """One `--set` word, "section.key=value"."""
    key, equals, value = word.partition("=")
    if not equals or "." not in key:
        raise BadInput(f"--set {word}: allowed: section.key=value, such as wifi.loss=0.003")
    return key, parse_value(value)


def value_text(value: Any) -> str:
    """A Python value in the words of the emulator's --set."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {value_text(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json.dumps(inner) for inner in value) + "]"
    return str(value)


def apply_overrides(tree: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Writes section.key = value into a parsed scenario as the emulator does: into every element of a list section."""
    for dotted, value in overrides.items():
        section, dot, key = dotted.partition(".")
        if not dot:
            raise BadInput(f"override {dotted}: allowed: section.key, such as wifi.loss")
        fresh: Any = [{}] if section in ("server", "ap") else {}
        place = tree.setdefault(section, fresh)
        for table in place if isinstance(place, list) else [place]:
            if isinstance(table, dict):
                table[key] = value


def load(path: Path, overrides: Mapping[str, Any] | None = None, congestion: str | None = None) -> Scenario:
    """Reads a scenario file. `congestion` puts every server on that congestion control.

    Raises BadInput with file, line, value and what is allowed.
    """
    try:
        tree = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise BadInput(f"{path}:{line.group(1) if line else 1}: {error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}:1: not UTF-8 text: {error}") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    apply_overrides(tree, overrides or {})

    head = _table(tree, "scenario", path)
    aps: list[str] = []
    interfaces: dict[int, str] = {}
    uplinks: dict[str, Uplink] = {}
    for number, entry in enumerate(_tables(tree, "ap", path) or [{}]):
        name = str(entry.get("name", f"ap{number + 1}"))
        if not _AP_NAME.fullmatch(name) or name in (*_TAKEN, *_NO_DEVICE, *aps):
            raise BadInput(f"{path}:{_line_of(path, 'ap', number)}: ap.name = \"{name}\": a name of its own is allowed, "
                           f"1 to 8 of a-z and 0-9, none of {', '.join((*_TAKEN, *_NO_DEVICE))}")
        aps.append(name)
        if "interface" in entry:
            interfaces[_interface_number(entry["interface"], path, number)] = name
        rate = _bits_per_second(entry.get("uplink", "0bit"), path, number)
        if rate or entry.get("uplink_flows"):
            queue, flows = (_whole(entry, key, default, f"{path}:{_line_of(path, 'ap', number)}: ap") for key, default in (("uplink_queue", 100), ("uplink_flows", 0)))
            uplinks[name] = Uplink(rate, queue, flows)
    if sorted(interfaces) != list(range(len(interfaces))):
        raise BadInput(f"{path}: ap.interface: interfaces are numbered from wlan0 without a gap")
    servers: list[Server] = []
    for number, entry in enumerate(_tables(tree, "server", path) or [{}]):
        name = str(entry.get("name", f"srv{number + 1}"))
        where = f"{path}:{_line_of(path, 'server', number)}"
        if not _SERVER_NAME.fullmatch(name) or name in (*_TAKEN, *aps, *(server.name for server in servers)):
            raise BadInput(f"{where}: server.name = \"{name}\": a name of its own is allowed, "
                           f"1 to 5 of a-z and 0-9, none of {', '.join(_TAKEN)} or an access point's")
        control = congestion or str(entry.get("congestion", "cubic"))
        if control not in CONGESTION_CONTROLS:
            raise BadInput(f"{where}: server.congestion = \"{control}\": allowed: {', '.join(CONGESTION_CONTROLS)}")
        servers.append(Server(name, control))

    cell = _table(tree, "cell", path)
    wifi = _table(tree, "wifi", path)
    links = [wifi, cell, _table(tree, "wan", path), *_tables(tree, "server", path)]
    ecn = any(link.get(key) == "mark" for link in links for key in ("ecn", "ecn_down", "ecn_up")) or \
        any(event.get("what") == "wan_ecn" for event in _tables(tree, "timeline", path))
    firewall = wifi.get("firewall", "none")
    if firewall not in FIREWALLS:
        raise BadInput(f"{path}: wifi.firewall = {firewall!r}: allowed: {', '.join(FIREWALLS)}")
    begin = tuple(interfaces[number] for number in sorted(interfaces)) or (aps[0],)
    return Scenario(
        path=path,
        name=str(head.get("name", path.stem)),
        summary=str(head.get("summary", "")),
        duration=_seconds(head.get("duration", "60s"), path),
        seed=_whole(head, "seed", 1, f"{path}: scenario"),
        aps=tuple(aps),
        servers=tuple(servers),
        cell=_flag(cell, "enabled", True, f"{path}: cell"),
        nat=_flag(cell, "nat", False, f"{path}: cell"),
        source_filter=_flag(cell, "source_filter", False, f"{path}: cell"),
        firewall=firewall,
        wifi_nat=_flag(wifi, "nat", False, f"{path}: wifi"),
        ecn=ecn,
        interfaces=begin,
        visitors={ap: _visitors(tree, path, ap, begin) for ap in aps},
        uplinks=uplinks,
        relay=_flag(head, "relay", False, f"{path}: scenario"),
        mptcp=_flag(head, "mptcp", False, f"{path}: scenario"),
    )


def _visitors(tree: Mapping[str, Any], path: Path, ap: str, begin: tuple[str, ...]) -> tuple[int, ...]:
    """The client's interfaces that begin at this access point or are handed on to it; wlan0 where none is said."""
    handoffs = [(nth, event) for nth, event in enumerate(_tables(tree, "timeline", path)) if event.get("what") == "handoff"]
    coming = {_interface_number(event.get("interface", "wlan0"), path, nth, "timeline") for nth, event in handoffs if event.get("ap") == ap}
    here = coming | {number for number, name in enumerate(begin) if name == ap}
    return tuple(sorted(number for number in here if number < len(begin))) or (0,)


def _interface_number(value: Any, path: Path, nth: int, table: str = "ap") -> int:
    """The number behind "wlan"."""
    found = re.fullmatch(r"wlan([0-7])", str(value))
    if not found:
        raise BadInput(f'{path}:{_line_of(path, table, nth)}: {table}.interface = "{value}": "wlan0" to "wlan7" is allowed')
    return int(found.group(1))


def _whole(table: Mapping[str, Any], key: str, default: int, place: str) -> int:
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadInput(f"{place}.{key} = {value!r}: a whole number from 0 is allowed")
    return value


def _flag(table: Mapping[str, Any], key: str, default: bool, place: str) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise BadInput(f"{place}.{key} = {value!r}: true or false is allowed")
    return value


def _bits_per_second(value: Any, path: Path, nth: int) -> float:
    """A rate in the words of the emulator."""
    found = re.fullmatch(r"([0-9]+|[0-9]*\.[0-9]+|[0-9]+\.) *(|k|M|G)bit", str(value))
    if not found:
        raise BadInput(f'{path}:{_line_of(path, "ap", nth)}: ap.uplink = "{value}": a rate with its unit is allowed, like "25Mbit"')
    return float(found.group(1)) * {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}[found.group(2)]


def _table(tree: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    table = tree.get(name, {})
    if not isinstance(table, dict):
        raise BadInput(f"{path}: {name}: a table is allowed, written [{name}]")
    return table


def _tables(tree: Mapping[str, Any], name: str, path: Path) -> list[Mapping[str, Any]]:
    tables = tree.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(entry, dict) for entry in tables):
        raise BadInput(f"{path}: {name}: a list of tables is allowed, each written [[{name}]]")
    return tables


def _seconds(value: Any, path: Path) -> float:
    """Seconds from text with a unit."""
    found = re.fullmatch(r"([0-9]+|[0-9]*\.[0-9]+|[0-9]+\.) *(ms|s|min|h)", str(value))
    if not found:
        raise BadInput(f'{path}: scenario.duration = {value!r}: a time with its unit is allowed, like "30s"')
    return float(found.group(1)) * {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}[found.group(2)]


def air_arguments(path: Path, overrides: Mapping[str, Any] | None, seed: int | None) -> list[str]:
    """The emulator's arguments for a scenario."""
    arguments = ["--scenario", str(path)]
    if seed is not None:
        arguments += ["--seed", str(seed)]
    for key, value in (overrides or {}).items():
        arguments += ["--set", f"{key}={value_text(value)}"]
    return arguments


def check(path: Path, overrides: Mapping[str, Any] | None = None, seed: int | None = None) -> None:
    """Lets the emulator check the whole file. Raises BadInput in its words (file:line, value, what is allowed)."""
    done = subprocess.run([str(system.tandem_binary("tandem-air")), *air_arguments(path, overrides, seed), "--check"],
                          capture_output=True, text=True)
    if done.returncode == 0:
        return
    words = (done.stderr or done.stdout).strip()
    words = words.removeprefix("tandem-air: ")
    if done.returncode == 2:
        raise BadInput(words)
    raise LabError(f"tandem-air could not check {path}: {words or f'exit code {done.returncode}'}")
