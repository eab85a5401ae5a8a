"""What a bug report needs, in one file: what the daemon says, the configuration, the latest recording; without secrets."""

from __future__ import annotations

import io
import json
import os
import platform
import secrets
import socket
import subprocess
import tarfile
import time
import tomllib
from pathlib import Path
from typing import Any

from tandem_common import provenance
from tandem_common.control import Daemon
from tandem_common.errors import Failure
from tandem_common.whole import written_whole

from .anonymise import KEY_BYTES, PrefixPreserving, anonymise
from .errors import BadInput, TraceError
from .reader import program
from .scrub import Scrubber

CONFIGURATION = Path("/etc/tandem/tandem.toml")
ASKED = {"status.json": "/v1/status", "modules.json": "/v1/modules", "links.json": "/v1/links", "flows.json": "/v1/flows", "networks.json": "/v1/networks"}
README = """\
What `tandem trace bundle` put together on {when}.

{parts}
Left out or replaced: passwords, tokens, keys, pages' addresses, names of Wi-Fi networks and of this machine (network-..., host-...: equal ones stay equal), hardware addresses (hw-...),
home directories; of the recording all payload. {addresses}
Look at it before you give it away: {look}
"""


def _doctor() -> Any:
    """By the program itself, which also looks without a daemon."""
    done = subprocess.run([program(), "doctor", "--json"], capture_output=True, text=True, check=False, timeout=60)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failure(done.stderr.strip() or "tandem doctor gave no answer") from None


def _configuration(file: Path) -> Any:
    """Without its comments, which may hold anything."""
    try:
        return tomllib.loads(file.read_text())
    except OSError as fault:
        raise Failure(f"{file}: {fault.strerror}") from fault
    except (ValueError, UnicodeDecodeError):
        raise Failure(f"{file}: is no TOML, so its secrets cannot be told from the rest") from None


def _versions(status: Any) -> dict[str, Any]:
    words = dict(line.split("=", 1) for line in _read(Path("/etc/os-release")).splitlines() if "=" in line)
    return {"tandem": provenance.output(program(), "--version"), "tandemd": status.get("version") if isinstance(status, dict) else None, "source": provenance.commit(),
            "kernel": f"{platform.system()} {platform.release()} {platform.version()}", "machine": platform.machine(), "processor": provenance.cpu(),
            "system": words.get("PRETTY_NAME", "").strip('"'), "python": platform.python_version()}


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _network_names(told: dict[str, Any], work: Scrubber) -> None:
    """Where a network's name stands under another word."""
    work.learn_networks(list(told.values()))
    networks = told.get("networks.json")
    for network in networks if isinstance(networks, list) else []:
        if network.get("kind") == "cellular":
            continue  # an interface, and the operator's code: they stand in every part, and say nothing of anybody
        for key in ("ssid", "name"):
            if isinstance(network.get(key), str):
                work.learn(network[key])
    here = told.get("status.json")
    evidence = here.get("evidence") if isinstance(here, dict) else None
    if isinstance(evidence, dict) and isinstance(evidence.get("network"), str):
        work.learn(evidence["network"])


def bundle(target: Path, path: str, configuration: Path | None, recording: Path | None, with_addresses: bool) -> list[str]:
    """Writes the file, whole or not at all, for its owner only. Gives a line for each part: what is in it, or why it is not."""
    key = secrets.token_bytes(KEY_BYTES)
    addresses = None if with_addresses else PrefixPreserving(key)
    work = Scrubber(secrets.token_bytes(KEY_BYTES), addresses.address if addresses else None, [socket.gethostname(), socket.getfqdn()], [str(Path.home())])
    daemon = Daemon(path)
    told: dict[str, Any] = {}
    missing: dict[str, str] = {}

    def ask(name: str, how: Any) -> None:
        try:
            told[name] = how()
        except (Failure, TraceError, OSError, subprocess.SubprocessError) as fault:
            missing[name] = str(fault)

    for name, what in ASKED.items():
        ask(name, lambda what=what: daemon.get(what))
    ask("metrics.txt", lambda: daemon.fetch("/metrics").decode(errors="replace"))
    ask("doctor.json", _doctor)
    ask("configuration.json", lambda: _configuration(configuration or CONFIGURATION))
    _network_names(told, work)
    parts = {name: (work.text(value) if isinstance(value, str) else json.dumps(work.json(value), indent=1) + "\n").encode() for name, value in told.items()}
    parts["versions.json"] = (json.dumps(_versions(told.get("status.json")), indent=1) + "\n").encode()
    damage = ""
    try:
        parts["recording.pcapng"], damage = _recording(target, daemon, recording, key, with_addresses)
    except (Failure, TraceError) as fault:
        if recording:
            raise BadInput(str(fault)) from fault
        missing["recording.pcapng"] = str(fault)
    lines = [f"{name}: {len(content)} bytes" + (f", up to where it is damaged: {work.text(damage)}" if damage and name == "recording.pcapng" else "")
             for name, content in sorted(parts.items())] + [f"{name}: not there: {work.text(why)}" for name, why in sorted(missing.items())]
    kept = "Addresses of packets and peers are as they were (--with-addresses)." if with_addresses else \
        "Addresses are replaced by others, the same in the recording and in the texts; common prefixes are kept (Crypto-PAn, a key that is thrown away)."
    readme = README.format(when=time.strftime("%Y-%m-%d %H:%M:%S %z"), parts="\n".join(lines) + "\n", addresses=kept, look="tar -xzf FILE; every part is text, but for the recording (tandem trace print).")
    _write(target, {"README.txt": readme.encode(), **parts})
    return lines


def _recording(target: Path, daemon: Daemon, given: Path | None, key: bytes, with_addresses: bool) -> tuple[bytes, str]:
    """Headers alone, whatever was recorded, and what is wrong with a file that is damaged: it is there up to the damage."""
    raw, copy = target.with_name(target.name + ".recording"), target.with_name(target.name + ".copy")
    try:
        if given is None:
            with open(os.open(raw, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as out:
                out.write(daemon.fetch("/v1/recording"))
        copied = anonymise(given or raw, copy, key, keep_addresses=with_addresses)
        return copy.read_bytes(), copied.fault
    except OSError as fault:
        raise TraceError(f"{fault.filename or target}: {fault.strerror}") from fault
    finally:
        raw.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)


def _write(target: Path, parts: dict[str, bytes]) -> None:
    now = time.time()
    try:
        with written_whole(target) as fresh:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as packed:
                for name, content in parts.items():
                    entry = tarfile.TarInfo(f"tandem-bundle/{name}")  # of nobody: no user or group of this machine
                    entry.size, entry.mtime, entry.mode = len(content), int(now), 0o600
                    packed.addfile(entry, io.BytesIO(content))
    except OSError as fault:
        raise TraceError(f"{target}: {fault.strerror}") from fault
