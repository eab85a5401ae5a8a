"""What a bug report holds, and above all what it does not."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from tandem_trace import cli, reader
from tandem_trace.scrub import REMOVED, Scrubber

# Planted where the daemon, the configuration and the recording could hold them; none may be found in any part.
SECRETS = {"ssid": "Villa Kunterbunt 5G", "other ssid": "neighbours-net", "password": "korrekt-horse", "token": "ghp_0123456789abcdefABCDEF0123456789ab", "psk": "f00dfeed" * 8,
           "bearer": "eyJhbGciOi.eyJzdWIiOi.sig-42", "ap": "a4:2b:b0:12:34:56", "scanned": "A4-2B-B0-99-88-77", "server": "93.184.216.34", "local": "10.77.1.2", "v6": "2001:db8:77::1234",
           "url": "https://example.org/secret/path?session=abc", "home": "/home" + "/marge/vpn", "key": "MIIEvQIBADANBgkqhkiG9w0", "comment": "remember hunter2",
           "excluded ssid": "Bastelkeller", "excluded host": "updates.kwik.example", "excluded user": "marge", "excluded service": "moes-tavern.service", "profile ssid": "Zug nach Irgendwo"}
STATUS = {"version": "0.1.0", "links": {"wifi": {"interface": "wlan0", "addresses": [SECRETS["local"], SECRETS["v6"]], "up": True}},
          "evidence": {"network": SECRETS["ssid"], "cell": "wwan0"}, "problems": [f"cannot read {SECRETS['home']}/tandem.key on {socket.gethostname()}", f"Authorization: Bearer {SECRETS['bearer']}"],
          "modules": [{"name": "offload", "enabled": True, "faults": 0}],
          "excluded": {"flows": 1, "exclusions": [{"kind": "ssid", "what": SECRETS["excluded ssid"]}, {"kind": "to", "what": SECRETS["excluded host"]}, {"kind": "to", "what": SECRETS["server"]},
                                                  {"kind": "user", "what": SECRETS["excluded user"]}, {"kind": "service", "what": SECRETS["excluded service"]}]},
          "hands_off": f"the Wi-Fi network {SECRETS['excluded ssid']} is excluded", "profile": {"profiles": [{"name": "train", "ssid": [SECRETS["profile ssid"]]}]}, "api_token": SECRETS["token"]}
LINKS = {"wifi": {"aps": [{"ap": SECRETS["ap"], "ssid": SECRETS["ssid"], "signal_dbm": -60}], "candidates": [{"ap": SECRETS["scanned"], "ssid": SECRETS["other ssid"]}]}}
FLOWS = [{"id": 7, "local": f"{SECRETS['local']}:5000", "remote": f"{SECRETS['server']}:443", "bypass": "none", "mptcp": {"token": SECRETS["token"]}, "content_why": f"GET {SECRETS['url']}", "excluded": f"user {SECRETS['excluded user']}"},
         {"id": 8, "local": f"[{SECRETS['v6']}]:5001", "remote": "[2001:db8:77::9]:443", "bypass": "none"}]
METRICS = f'tandem_ap_delivery_ratio{{ap="{SECRETS["ap"]}",ssid="{SECRETS["other ssid"]}"}} 0.9\ntandem_flows 2\n'
CONFIG = f'''# {SECRETS["comment"]}
[links]
wifi = "wlan0"
[exclude]
to = ["{SECRETS["excluded host"]}", "{SECRETS["server"]}"]
user = ["{SECRETS["excluded user"]}", 1001]
service = ["{SECRETS["excluded service"]}"]
ssid = ["{SECRETS["excluded ssid"]}"]
[profile.train]
ssid = ["{SECRETS["profile ssid"]}"]
cell.use = "never"
[fetch]
password = "{SECRETS["password"]}"
wifi_psk = "{SECRETS["psk"]}"
command = "curl --token {SECRETS["token"]} {SECRETS["url"]}"
file = "{SECRETS["home"]}/x"
pem = """-----BEGIN PRIVATE KEY-----
{SECRETS["key"]}
-----END PRIVATE KEY-----"""
'''


@pytest.fixture
def made(control, golden, tmp_path, monkeypatch):
    """Makes a bundle and gives its parts."""
    control.answers = {"/v1/status": STATUS, "/v1/modules": STATUS["modules"], "/v1/links": LINKS, "/v1/flows": FLOWS, 
                       "/v1/networks": [{"name": SECRETS["ssid"], "gateway": SECRETS["ap"]}, {"kind": "cellular", "name": "wwan0"}],
                       "/metrics": METRICS.encode(), "/v1/recording": (golden / "radio-silent.pcap").read_bytes(),
                       "/v1/doctor": {"health": "ok", "checks": [{"name": "wifi", "health": "ok", "found": f"associated with {SECRETS['ssid']}", "remedy": ""}], "radio": []}}
    monkeypatch.setenv("TANDEM_SOCKET", str(control.path))
    config = tmp_path / "tandem.toml"
    config.write_text(CONFIG)

    def make(*words: str) -> dict[str, bytes]:
        file = tmp_path / "bundle.tar.gz"
        assert cli.main(["bundle", "-o", str(file), "--config", str(config), *words]) == 0
        assert file.stat().st_mode & 0o777 == 0o600 and {path.name for path in tmp_path.iterdir()} == {"bundle.tar.gz", "tandem.toml", "control.sock"}
        with tarfile.open(file) as packed:
            assert all((entry.uname, entry.gname, entry.uid) == ("", "", 0) for entry in packed.getmembers())
            return {Path(entry.name).name: packed.extractfile(entry).read() for entry in packed.getmembers()}

    return make


def leaked(parts: dict[str, bytes], *kept: str) -> list[str]:
    everything = {name: content.decode(errors="replace") for name, content in parts.items()}
    found = [f"{what} in {name}" for what, secret in SECRETS.items() if what not in kept for name, content in everything.items() if secret.lower() in content.lower()]
    # As a word, and in texts alone: a short name stands in any recording by chance.
    host = re.compile(rf"(?<!\w){re.escape(socket.gethostname())}(?!\w)")
    return found + [f"host in {name}" for name, content in everything.items() if not name.endswith(".pcapng") and host.search(content)]


def packets(parts: dict[str, bytes], tmp_path: Path) -> list[dict]:
    (tmp_path / "x.pcapng").write_bytes(parts["recording.pcapng"])
    done = subprocess.run([reader.program(), "trace", "print", "--json", str(tmp_path / "x.pcapng")], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_planted_secrets_are_not_in_it_and_what_is_needed_is(made, tmp_path) -> None:
    parts = made()
    assert set(parts) == {"README.txt", "status.json", "modules.json", "links.json", "flows.json", "networks.json", "metrics.txt", "doctor.json", "configuration.json", "versions.json",
                          "recording.pcapng"}
    assert leaked(parts) == []
    assert json.loads(parts["status.json"])["evidence"]["cell"] == "wwan0", "an interface is no secret, though a path by it was learnt"
    assert b"xxxx" not in parts["recording.pcapng"] and b"hunter2" not in parts["configuration.json"]
    assert json.loads(parts["links.json"])["wifi"]["aps"][0]["signal_dbm"] == -60 and json.loads(parts["flows.json"])[0]["bypass"] == "none"
    assert json.loads(parts["configuration.json"])["links"]["wifi"] == "wlan0" and b"tandem_flows 2" in parts["metrics.txt"]
    assert os.uname().release in json.loads(parts["versions.json"])["kernel"]
    network = json.loads(parts["links.json"])["wifi"]["aps"][0]["ssid"]
    assert network.startswith("network-") and json.loads(parts["status.json"])["evidence"]["network"] == network and network in parts["doctor.json"].decode(), "equal ones stay equal"
    assert json.loads(parts["configuration.json"])["exclude"]["user"][1] == 1001 and json.loads(parts["flows.json"])[0]["excluded"].startswith("user user-")
    assert len(packets(parts, tmp_path)) > 500


def test_the_texts_name_the_addresses_of_the_recording(made, tmp_path) -> None:
    parts = made()
    local = json.loads(parts["status.json"])["links"]["wifi"]["addresses"][0]
    assert local != SECRETS["local"] and any(local in json.dumps(packet) for packet in packets(parts, tmp_path)[:5])


def test_with_addresses_keeps_them_and_nothing_else(made, tmp_path) -> None:
    parts = made("--with-addresses")
    assert leaked(parts, "server", "local", "v6") == [] and b"xxxx" not in parts["recording.pcapng"]
    assert SECRETS["server"] in parts["flows.json"].decode() and "10.77." in json.dumps(packets(parts, tmp_path)[0])


def test_two_bundles_cannot_be_joined(made) -> None:
    one, other = made()["links.json"], made()["links.json"]
    assert json.loads(one)["wifi"]["aps"][0]["ssid"] != json.loads(other)["wifi"]["aps"][0]["ssid"]


def test_without_a_daemon_it_holds_what_there_is(tmp_path, monkeypatch, golden, capsys) -> None:
    monkeypatch.setenv("TANDEM_SOCKET", str(tmp_path / "nothing"))
    file = tmp_path / "b.tar.gz"
    assert cli.main(["bundle", "-o", str(file), "--recording", str(golden / "tandem.pcapng")]) == 0
    told = capsys.readouterr().out
    assert "status.json: not there" in told and "tandem up" in told and "recording.pcapng:" in told
    with tarfile.open(file) as packed:
        assert "tandem-bundle/doctor.json" in packed.getnames() and "not there" in packed.extractfile("tandem-bundle/README.txt").read().decode()


def test_what_is_wrong_is_said(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TANDEM_SOCKET", str(tmp_path / "nothing"))
    assert cli.main(["bundle", "-o", str(tmp_path / "x.zip")]) == 2 and ".tar.gz" in capsys.readouterr().err
    assert cli.main(["bundle", "-o", str(tmp_path / "no/x.tar.gz")]) == 1 and "No such file" in capsys.readouterr().err
    assert cli.main(["bundle", "-o", str(tmp_path / "x.tar.gz"), "--recording", str(tmp_path / "none")]) == 2 and not (tmp_path / "x.tar.gz").exists()
    broken = tmp_path / "tandem.toml"
    broken.write_text("password = 'p4ssw0rd-in-what-is-no-toml\n")
    assert cli.main(["bundle", "-o", str(tmp_path / "x.tar.gz"), "--config", str(broken)]) == 0
    with tarfile.open(tmp_path / "x.tar.gz") as packed:
        assert not any(b"p4ssw0rd" in packed.extractfile(entry).read() for entry in packed.getmembers())


WORK = Scrubber(b"k" * 32, lambda packed: bytes(255 - one for one in packed), ["box"], ["/srv/homes/anna"])


@pytest.mark.parametrize("text, shown", [
    ("nothing to hide: queue 84, 0x70000000, tandem 0.1.0", "nothing to hide: queue 84, 0x70000000, tandem 0.1.0"),
    ("tandemd 0.1.0 (0123abc4+)", "tandemd 0.1.0 (0123abc4+)"), ("12:34:56 up", "12:34:56 up"), ("from 10.0.0.1:80", "from 245.255.255.254:80"),
    ("psk=abc next", f"psk={REMOVED} next"), ('password: "a b" x', f"password: {REMOVED} x"), ("/srv/homes/anna/x", "~/x"), ("/home" + "/bob", "~"), ("/root" + "/x", "~/x"),
    ("inbox of the box", f"inbox of the {WORK.learn('box')}"), ("https://a.test/x?y=1, then", "(address of a page) then")])
def test_texts(text: str, shown: str) -> None:
    assert WORK.text(text) == shown


def test_a_recording_that_is_cut_is_in_it_up_to_there(made, golden, tmp_path) -> None:
    """As a capture is that was killed."""
    cut = tmp_path.parent / f"{tmp_path.name}-cut.pcap"
    cut.write_bytes((golden / "radio-silent.pcap").read_bytes()[:50_000])
    parts = made("--recording", str(cut))
    assert "recording.pcapng: " in parts["README.txt"].decode() and "up to where it is damaged: offset " in parts["README.txt"].decode()
    assert len(packets(parts, tmp_path)) > 20
