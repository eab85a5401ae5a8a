"""Scenario files: finding them, checking them, and the part of them that concerns namespaces and servers.

The emulator is the one that knows the whole schema (docs/lab-scenarios.md) and checks it; here only what this side
carries out is read.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from . import system
from .errors import BadInput, LabError

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"

CONGESTION_CONTROLS = ("cubic", "reno", "bbr")
_SERVER_NAME = re.compile(r"srv([1-9][0-9]?)")
_AP_NAME = re.compile(r"ap([1-9])")


@dataclass(frozen=True)
class Server:
    """One server namespace. `ecn` is net.ipv4.tcp_ecn: 0 off, 1 ask and answer, 2 answer only (Linux's default)."""

    name: str
    congestion: str = "cubic"
    ecn: int = 2


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
    client_ecn: int = 2
    timeline: tuple[Mapping[str, Any], ...] = field(default=())


def find(name: str | Path) -> Path:
    """The file of a scenario, given by path or by the name of one that comes with the lab."""
    path = Path(name)
    if path.is_file():
        return path.resolve()
    if path.suffix == "" and (SCENARIOS / f"{name}.toml").is_file():
        return SCENARIOS / f"{name}.toml"
    known = ", ".join(sorted(file.stem for file in SCENARIOS.glob("*.toml"))) or "none"
    raise BadInput(f"scenario {name}: no such file, and no scenario of that name; allowed: a file, or one of: {known}")


def shipped() -> list[Path]:
    """The scenario files that come with the lab, by name."""
    return sorted(SCENARIOS.glob("*.toml"))


def _line_of(path: Path, pattern: str, nth: int = 0) -> int:
    """The line where a key or table stands (for error messages); 1 when it cannot be found."""
    hits = [number for number, line in enumerate(path.read_text().splitlines(), 1) if re.match(pattern, line)]
    return hits[nth] if nth < len(hits) else (hits[-1] if hits else 1)


def parse_value(text: str) -> Any:
    """A value as typed after `--set key=`: a TOML value where it is one, otherwise plain text ("60ms")."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


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
    return str(value)


def apply_overrides(tree: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Writes section.key = value into a parsed scenario; sections that are absent come into being."""
    for dotted, value in overrides.items():
        *sections, key = dotted.split(".")
        if not sections:
            raise BadInput(f"override {dotted}: allowed: section.key, such as wifi.loss")
        place: Any = tree
        for section in sections:
            if isinstance(place, list):
                named = [item for item in place if item.get("name") == section]
                place = named[0] if named else {}
            else:
                place = place.setdefault(section, {})
        if isinstance(place, dict):
            place[key] = value


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
    apply_overrides(tree, overrides or {})

    head = tree.get("scenario", {})
    aps = tuple(str(ap.get("name", f"ap{number}")) for number, ap in enumerate(tree.get("ap", []), 1)) or ("ap1",)
    for number, name in enumerate(aps):
        if not _AP_NAME.fullmatch(name):
            line = _line_of(path, r"\[\[ap\]\]", number)
            raise BadInput(f'{path}:{line}: access point name "{name}"; allowed: ap1 to ap9')
    servers: list[Server] = []
    for number, entry in enumerate(tree.get("server", [{"name": "srv1"}])):
        where = f"{path}:" + str(_line_of(path, r"\[\[server\]\]", number))
        name = str(entry.get("name", f"srv{number + 1}"))
        if not _SERVER_NAME.fullmatch(name) or name in [server.name for server in servers]:
            raise BadInput(f"{where}: server name \"{name}\"; allowed: srv1 to srv99, each once")
        control = congestion or str(entry.get("congestion", "cubic"))
        if control not in CONGESTION_CONTROLS:
            raise BadInput(f"{where}: congestion \"{control}\"; allowed: {', '.join(CONGESTION_CONTROLS)}")
        servers.append(Server(name, control, _ecn(entry.get("ecn", 2), where)))

    cell = tree.get("cell", {})
    client = tree.get("client", {})
    return Scenario(
        path=path,
        name=str(head.get("name", path.stem)),
        summary=str(head.get("summary", "")),
        duration=_seconds(head.get("duration", 30), path),
        seed=int(head.get("seed", 1)),
        aps=aps,
        servers=tuple(servers),
        cell=bool(cell.get("enabled", True)),
        nat=bool(cell.get("nat", False)),
        source_filter=bool(cell.get("source_filter", False)),
        client_ecn=_ecn(client.get("ecn", 2), f"{path}:" + str(_line_of(path, r"\[client\]"))),
        timeline=tuple(tree.get("timeline", [])),
    )


def _ecn(value: Any, where: str) -> int:
    if isinstance(value, bool):
        return 1 if value else 0
    if value in (0, 1, 2):
        return int(value)
    raise BadInput(f"{where}: ecn {value!r}; allowed: false, true, or 0, 1, 2 as in net.ipv4.tcp_ecn")


def _seconds(value: Any, path: Path) -> float:
    """Seconds from a number or from text with a unit (ms, s, min)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    found = re.fullmatch(r"([0-9.]+)\s*(ms|s|min)", str(value))
    if not found:
        line = _line_of(path, r"\s*duration\s*=")
        raise BadInput(f'{path}:{line}: duration {value!r}; allowed: seconds, or text such as "30s"')
    return float(found.group(1)) * {"ms": 0.001, "s": 1.0, "min": 60.0}[found.group(2)]


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
