"""What the files of both sides say to each other, and to Tandem."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Mapping

import pytest
from conftest import ROOT

from tandem_relay import cli, files

PROGRAM = ROOT / "tools" / "relay" / "relay.py"
KEYS = {name: files.Keys(f"private of {name}", f"public of {name}") for name in cli.INTERFACES}


def read(text: str) -> dict[str, Mapping[str, list[str]]]:
    """Sections of a file for wg-quick: values of each key, which may come several times."""
    found: dict[str, Mapping[str, list[str]]] = {}
    for line in (line.split("#")[0].strip() if line.startswith("#") else line.strip() for line in text.splitlines()):
        if line.startswith("["):
            section: dict[str, list[str]] = defaultdict(list)
            found[line.strip("[]")] = section
        elif line:
            key, _, value = line.partition(" = ")
            section[key].append(value)
    return found


def made(**options) -> dict[str, dict[str, Mapping[str, list[str]]]]:
    return {Path(name).stem: read(text) for name, text in files.files(files.Relay("198.51.100.7", **options), KEYS).items()}


def test_each_end_knows_the_key_of_the_other() -> None:
    all_files = made()
    for one, other in ((files.LAPTOP_WIFI, files.RELAY_WIFI), (files.LAPTOP_CELL, files.RELAY_CELL)):
        for here, there in ((one, other), (other, one)):
            assert all_files[here]["Interface"]["PrivateKey"] == [KEYS[here].private]
            assert all_files[here]["Peer"]["PublicKey"] == [KEYS[there].public]


def test_each_tunnel_of_the_laptop_ends_at_its_own_port() -> None:
    all_files = made(wifi_port=1000, cell_port=2000)
    for one, other, port in ((files.LAPTOP_WIFI, files.RELAY_WIFI, 1000), (files.LAPTOP_CELL, files.RELAY_CELL, 2000)):
        assert all_files[one]["Peer"]["Endpoint"] == [f"198.51.100.7:{port}"]
        assert all_files[other]["Interface"]["ListenPort"] == [str(port)]


def test_the_relay_takes_the_first_tunnels_address_from_either() -> None:
    """Which is what it is for: ACKs by cellular have it."""
    all_files = made()
    first = set(all_files[files.LAPTOP_WIFI]["Interface"]["Address"][0].split(", "))
    allowed = {name: set(all_files[name]["Peer"]["AllowedIPs"][0].split(", ")) for name in (files.RELAY_WIFI, files.RELAY_CELL)}
    assert first == allowed[files.RELAY_WIFI] and first < allowed[files.RELAY_CELL]
    routes = [line for line in all_files[files.RELAY_CELL]["Interface"]["PostUp"] if " route " in line]
    assert len(routes) == 2 and not any(address in line for line in routes for address in first), "and sends what is for it by the first one"
    assert all(all_files[name]["Interface"]["Address"] for name in allowed), "without an address rp_filter drops everything"


def test_only_the_tunnel_by_wifi_has_the_default_route() -> None:
    all_files = made()
    assert "Table" not in all_files[files.LAPTOP_WIFI]["Interface"] and all_files[files.LAPTOP_CELL]["Interface"]["Table"] == ["off"]
    assert all(all_files[name]["Peer"]["AllowedIPs"] == ["0.0.0.0/0, ::/0"] for name in (files.LAPTOP_WIFI, files.LAPTOP_CELL))


def test_the_tunnel_by_wifi_stays_known_to_nats_and_the_one_by_cellular_costs_nothing_idle() -> None:
    """A NAT forgets UDP soon: what a server says on a quiet connection would be lost, and so would a download after another Wi-Fi network."""
    kept = {name: sections["Peer"]["PersistentKeepalive"] for name, sections in made().items() if "PersistentKeepalive" in sections["Peer"]}
    assert list(kept) == [files.LAPTOP_WIFI] and 5 <= int(kept[files.LAPTOP_WIFI][0]) <= 29


def test_the_mark_is_tandems() -> None:
    header = (ROOT / "src" / "daemon" / "config.h").read_text()
    default = re.search(r"struct Relay\n.*?constexpr std::uint32_t mark = (\w+);", header, re.DOTALL)
    assert default and made()[files.LAPTOP_CELL]["Interface"]["FwMark"] == [default[1]]


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert files.Relay("2001:db8::7").endpoint(51820) == "[2001:db8::7]:51820"


def relay(*words: str, path: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-B", str(PROGRAM), *words], capture_output=True, text=True, timeout=30,
                          env={**os.environ, **({"PATH": path} if path is not None else {})})


@pytest.mark.parametrize("words, said", [
    ((), "DIRECTORY"),
    (("here",), "--host"),
    (("here", "--host", ""), "a host name or an IP address is needed"),
    (("here", "--host", "a b"), "a host name or an IP address is needed"),
    (("here", "--host", "relay.example.net:51820"), "a host name or an IP address is needed"),
    (("here", "--host", "r\nPostUp = reboot"), "a host name or an IP address is needed"),
    (("here", "--host", "-r"), "expected one argument"),
    (("here", "--host", "198.51.100.700"), "a host name or an IP address is needed"),
    (("here", "--host", "fe80::1%x\nPostUp = reboot"), "a host name or an IP address is needed"),
    (("here", "--host", "r", "--wifi-port", "0"), "a port from 1 to 65535 is needed"),
    (("here", "--host", "r", "--cell-port", "65536"), "a port from 1 to 65535 is needed"),
    (("here", "--host", "r", "--cell-port", "51820"), "another port than --wifi-port is needed"),
])
def test_what_is_wrong_is_said(words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = relay(*words)
    assert done.returncode == 2 and said in done.stderr and not any(tmp_path.iterdir())


def test_without_wg_it_says_what_to_install(tmp_path: Path) -> None:
    done = relay(str(tmp_path / "there"), "--host", "r", path=str(tmp_path))
    assert done.returncode == 1 and "apt-get install wireguard-tools" in done.stderr and not (tmp_path / "there").exists()


@pytest.mark.parametrize("host", ["relay.example.net", "relay.example.net.", "r", "7up.example", "198.51.100.7", "2001:db8::7"])
def test_what_is_right_is_taken(host: str) -> None:
    assert cli._host(host) == host


needs_wg = pytest.mark.skipif(not shutil.which("wg"), reason="wg is not installed (Debian: wireguard-tools)")


@needs_wg
def test_what_is_written_is_for_its_owner_alone_and_is_never_overwritten(tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert relay(str(there), "--host", "relay.example.net").returncode == 0
    written = sorted(path for path in there.rglob("*") if path.is_file())
    assert len(written) == 4 and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in written)
    before = [path.read_text() for path in written]
    again = relay(str(there), "--host", "relay.example.net")
    assert again.returncode == 1 and "is there already" in again.stderr
    assert [path.read_text() for path in written] == before


@needs_wg
def test_keys_are_fresh_and_belong_together(tmp_path: Path) -> None:
    both = [tmp_path / name for name in ("one", "two")]
    for directory in both:
        assert relay(str(directory), "--host", "r").returncode == 0
    private = [read((directory / "laptop" / "tandem-wifi.conf").read_text())["Interface"]["PrivateKey"][0] for directory in both]
    assert private[0] != private[1]
    public = subprocess.run(["wg", "pubkey"], input=private[0] + "\n", capture_output=True, text=True, check=True).stdout.strip()
    assert read((both[0] / "relay" / "tandem-w.conf").read_text())["Peer"]["PublicKey"] == [public]


@pytest.fixture
def keys_without_wg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_keys", lambda: KEYS[files.LAPTOP_WIFI])


def test_a_directory_that_may_not_be_looked_into_is_an_error_not_a_fault(keys_without_wg: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                         capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    for call in ("stat", "lstat", "mkdir", "open"):  # as root the tests may look everywhere
        monkeypatch.setattr(os, call, refuse)
    assert cli.main([str(tmp_path), "--host", "r"]) == 1
    assert "Permission denied" in capsys.readouterr().err


def test_a_link_that_leads_nowhere_is_there_already(keys_without_wg: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "laptop").mkdir()
    (tmp_path / "laptop" / "tandem-wifi.conf").symlink_to("nowhere")
    assert cli.main([str(tmp_path), "--host", "r"]) == 1
    assert "is there already" in capsys.readouterr().err and not (tmp_path / "relay").exists()


def test_what_a_full_disk_cut_short_is_not_left(tmp_path: Path) -> None:
    """An empty file in the way would be taken for one whose keys are in use."""
    code = ("import sys, resource; sys.dont_write_bytecode = True; sys.path[:0] = sys.argv[1:3]\n"
            "from tandem_relay import cli, files\n"
            "cli._keys = lambda: files.Keys('private', 'public')\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))\n"
            "sys.exit(cli.main([sys.argv[4], '--host', 'r']))\n")
    for most in (0, 400):  # in the first file, and behind it
        done = subprocess.run([sys.executable, "-c", code, *(str(ROOT / "tools" / part) for part in ("relay", "common")), str(most), str(tmp_path)],
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 1 and "File too large; nothing was kept" in done.stderr
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
