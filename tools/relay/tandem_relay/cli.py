"""`tandem relay DIRECTORY --host NAME`: the files of both tunnels, with fresh keys. Changes nothing else."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Sequence

from tandem_common.errors import Failure

from . import files

INTERFACES = (files.LAPTOP_WIFI, files.LAPTOP_CELL, files.RELAY_WIFI, files.RELAY_CELL)
HOST = re.compile(r"(?=.{1,253}\Z)(?!(.*\.)?[0-9]+\.?\Z)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?")


def _host(text: str) -> str:
    if not (files.is_address(text) and "%" not in text) and not HOST.fullmatch(text):
        raise argparse.ArgumentTypeError(f'"{text}": a host name or an IP address is needed, such as relay.example.net')
    return text


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f'"{text}": a port from 1 to 65535 is needed')
    return int(text)


def _wg(verb: str, given: str = "") -> str:
    try:
        done = subprocess.run(["wg", verb], input=given, capture_output=True, text=True, timeout=10)
    except OSError as error:
        raise Failure(f"wg: {error.strerror}; it makes the keys. Install it: apt-get install wireguard-tools") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"wg {verb}: no answer in {error.timeout:.0f} s") from error
    if done.returncode != 0:
        raise Failure(f"wg {verb}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def _keys() -> files.Keys:
    private = _wg("genkey")
    return files.Keys(private, _wg("pubkey", private + "\n"))


def write(directory: Path, relay: files.Relay) -> list[Path]:
    """Writes the four files, which only their owner may read; none where one is there already: its keys may be in use."""
    wanted = files.files(relay, {name: _keys() for name in INTERFACES})
    written: list[Path] = []
    try:
        # A link that leads nowhere is there, too. Where nobody may look open() says so below.
        taken = [str(directory / name) for name in wanted if os.path.lexists(directory / name)]
        if taken:
            raise Failure(f"{taken[0]}: is there already, with keys that may be in use; name another directory, or remove it")
        for name, text in wanted.items():
            path = directory / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            written.append(path)  # before it is whole: a full disk shows when it is written
            with open(descriptor, "w") as file:
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise Failure(f"{error.filename or directory}: {error.strerror}; nothing was kept") from error
    return written


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tandem relay", description="Writes the files for wg-quick of two tunnels between this laptop and a relay of yours, with fresh keys. "
        "Behind a NAT (most homes) it takes a relay for ACKs to leave by the cellular link. See docs/relay.md.")
    parser.add_argument("directory", metavar="DIRECTORY", type=Path, help="gets laptop/ and relay/")
    parser.add_argument("--host", required=True, type=_host, help="name or address of the relay, as this laptop reaches it")
    parser.add_argument("--wifi-port", type=_port, default=files.Relay.wifi_port, help="UDP port there of the tunnel by Wi-Fi (default %(default)s)")
    parser.add_argument("--cell-port", type=_port, default=files.Relay.cell_port, help="of the one by the cellular link (default %(default)s)")
    given = parser.parse_args(argv)
    if given.wifi_port == given.cell_port:
        parser.error(f"--cell-port {given.cell_port}: another port than --wifi-port is needed")
    try:
        written = write(given.directory, files.Relay(given.host, given.wifi_port, given.cell_port))
    except Failure as failure:
        print(f"tandem relay: {failure}", file=sys.stderr)
        return failure.code
    for path in written:
        print(path)
    print(f"""
On the relay (UDP ports {given.wifi_port} and {given.cell_port} must be open): put relay/*.conf into /etc/wireguard, then
    systemctl enable --now wg-quick@{files.RELAY_WIFI} wg-quick@{files.RELAY_CELL}
Here: put laptop/*.conf into /etc/wireguard, then
    systemctl enable --now wg-quick@{files.LAPTOP_WIFI} wg-quick@{files.LAPTOP_CELL}
and in /etc/tandem/tandem.toml
    [links]
    relay = ["{files.LAPTOP_WIFI}", "{files.LAPTOP_CELL}"]
then systemctl restart tandemd. These files hold private keys: remove them when they are in place.""")
    return 0
