"""Beside the real programs that change rules and routes on laptops: each loads, loads anew and goes while a download runs with every module on.
Its own rules stay as it made them, Tandem's stand or come back, and nothing of Tandem's is left when the daemon ends."""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest
from conftest import need_built

from neighbours import Place, end, without_counters
from tandem_lab import Lab, system, virtual
from test_vpn import EAGER, LONG_ENOUGH, by_cellular, captured, cell_bytes, hands_off, packets, state, the_next_goes_by_cellular, untroubled

MODULES = ("offload", "freeze", "mirror", "ecn", "rate")
RULES = ("nft", "list", "ruleset")
PIECE = random.Random(17).randbytes(8_000_000)


@pytest.fixture(scope="module")
def lab(with_air: None, prefix: str) -> Iterator[Lab]:
    need_built(*MODULES)
    with Lab("plain", prefix=prefix[:-1] + "b-", overrides={"wifi.loss_down": 0.005}) as made:
        made.add_file("piece", PIECE)
        yield made


def tables(lab: Lab) -> set[str]:
    return set(lab.client.run(["nft", "list", "tables"]).stdout.splitlines())


@pytest.fixture
def place(lab: Lab) -> Iterator[Place]:
    before = tables(lab)
    made = Place(lab.client.namespace)
    yield made
    made.stop()
    for table in tables(lab) - before:  # not all of them take theirs away when they end
        lab.client.run(["nft", "delete", *table.split()])


def needs(place: Place, *programs: str) -> None:
    if missing := [program for program in programs if not place.has(program)]:
        pytest.skip(f"not here: {', '.join(missing)}; tools/install-deps beside beside-more unpacks them")


class Neighbour:
    """A program with rules of its own."""

    needs: tuple[str, ...] = ()

    def __init__(self, place: Place, log: Path) -> None:
        self.place, self.log = place, log

    def start(self) -> None: ...
    def reload(self) -> None: ...
    def stop(self) -> None: ...


class Firewalld(Neighbour):
    needs = ("firewalld", "firewall-cmd", "dbus-daemon")
    process: subprocess.Popen | None = None

    def start(self) -> None:
        if self.process is None:
            self.place.bus(self.log)
        self.process = self.place.start("firewalld", "--nofork", "--nopid", log=self.log)
        assert system.wait_until(lambda: self.place.run("firewall-cmd", "--state", check=False).stdout.startswith("running"), LONG_ENOUGH), self.log.read_text()

    def reload(self) -> None:
        self.place.run("firewall-cmd", "--reload")

    def stop(self) -> None:
        assert self.process
        end(self.process)


class Ufw(Neighbour):
    needs = ("ufw", "iptables-restore")

    def start(self) -> None:
        # What its package's postinst does.
        self.place.run("sh", "-c", "cp -n /usr/share/ufw/iptables/*.rules /usr/share/ufw/*.init /usr/share/ufw/ufw.conf /etc/ufw/")
        self.place.run("ufw", "--force", "enable")

    def reload(self) -> None:
        self.place.run("ufw", "reload")

    def stop(self) -> None:
        self.place.run("ufw", "--force", "disable")


class Docker(Neighbour):
    needs = ("dockerd", "containerd", "docker")
    socket = "unix:///run/docker.sock"
    process: subprocess.Popen | None = None

    def start(self) -> None:
        self.process = self.place.start("dockerd", "--data-root", "/var/lib/docker", "--exec-root", "/run/docker", "--pidfile", "/run/docker.pid", "-H", self.socket,
                                        "--storage-driver", "vfs", "--userland-proxy=false", log=self.log)
        assert system.wait_until(lambda: self.place.run("docker", "-H", self.socket, "info", check=False).returncode == 0, LONG_ENOUGH), self.log.read_text()

    def reload(self) -> None:
        self.place.run("docker", "-H", self.socket, "network", "create", "other")
        self.place.run("docker", "-H", self.socket, "network", "rm", "other")

    def stop(self) -> None:
        assert self.process
        end(self.process)


class Libvirt(Neighbour):
    """Its default network alone, without virtual machines."""

    needs = ("libvirtd", "virsh", "dnsmasq", "dbus-daemon")
    network = """<network><name>default</name><forward mode="nat"/><bridge name="virbr0"/>
      <ip address="192.168.122.1" netmask="255.255.255.0"><dhcp><range start="192.168.122.2" end="192.168.122.254"/></dhcp></ip></network>"""
    process: subprocess.Popen | None = None

    def virsh(self, *words: str, check: bool = True) -> bool:
        return self.place.run("virsh", "-c", "network:///system", *words, check=check).returncode == 0

    def start(self) -> None:
        if self.process is None:
            self.place.bus(self.log)
            self.place.write("/run/default.xml", self.network)
            self.place.run("sh", "-c", "mkdir /run/drivers && ln -s /usr/lib/*/libvirt/connection-driver/libvirt_driver_network.so /run/drivers/")
        self.process = self.place.start("env", "LIBVIRT_DRIVER_DIR=/run/drivers", "libvirtd", log=self.log)
        assert system.wait_until(lambda: self.virsh("net-list", check=False), LONG_ENOUGH), self.log.read_text()
        self.virsh("net-create", "/run/default.xml")

    def reload(self) -> None:
        self.virsh("net-destroy", "default")
        self.virsh("net-create", "/run/default.xml")

    def stop(self) -> None:
        assert self.process
        self.virsh("net-destroy", "default")
        end(self.process)


def all_rules(place: Place) -> str:
    return without_counters(place.run(*RULES).stdout)


def others_rules(place: Place) -> dict[str, list[str]]:
    """Rules of the packet filter that are not Tandem's, by table and chain. Tandem may have chains in a table that iptables shares, and leave
    that table behind, empty."""
    found: dict[str, list[str]] = {}
    table = chain = ""
    for line in all_rules(place).splitlines():
        words = line.split()
        if words[0] == "table":
            table = " ".join(words[1:3])
        elif words[0] in ("chain", "set", "map"):
            chain = words[1]
        elif words != ["}"] and "TANDEM" not in chain + line and not table.startswith("inet tandem") and "policy accept" not in line:
            found.setdefault(f"{table} {chain}", []).append(" ".join(words))
    return found


def left_of_tandem(lab: Lab) -> list[str]:
    """Lines that name Tandem, its table of routes or its marks."""
    found = []
    for words in (list(RULES), ["iptables-save"], ["ip6tables-save"], ["ip", "rule"], ["ip", "-6", "rule"], ["ip", "route", "show", "table", "8484"],
                  ["ip", "-6", "route", "show", "table", "8484"]):
        said = lab.client.run(words, check=False).stdout
        # A count of bytes may have any digits.
        lines = [re.sub(r"\[\d+:\d+\]|packets \d+ bytes \d+", "", line) for line in said.splitlines()]
        found += [line for line in lines if "tandem" in line.lower() or "8484" in line or words[-1] == "8484"]
    # The lab counts packets in a table of its own.
    return [line for line in found if "tandem_lab" not in line]


class Downloads:
    """One after the other, each whole."""

    def __init__(self, lab: Lab, daemon) -> None:
        self._lab, self._daemon = lab, daemon
        self._begin()

    def _begin(self) -> None:
        self._going = self._lab.start_download("piece", sha256=True, timeout=60)

    def go_on(self) -> None:
        """Waits until ACKs leave by cellular, for which rules, routes and modules are needed."""
        before = cell_bytes(self._daemon)

        def by_cell() -> bool:
            if not self._going.running():
                self.end()
                self._begin()
            return cell_bytes(self._daemon) > before + 2000

        assert system.wait_until(by_cell, LONG_ENOUGH), state(self._daemon)

    def end(self) -> None:
        result = self._going.wait()
        assert result.error is None and result.sha256 == hashlib.sha256(PIECE).hexdigest()


def in_force(daemon) -> bool:
    told = state(daemon)
    return told["rules"]["in_force"] and told["keeper"]["state"] in ("armed", "idle")


def never_in_doubt(daemon) -> None:
    told = state(daemon)
    assert told["faults"] == {}, told["faults"]
    untroubled(daemon)


@pytest.mark.parametrize("kind", [Firewalld, Ufw, Docker, Libvirt])
def test_a_firewall_comes_and_goes(lab: Lab, place: Place, tmp_path: Path, kind: type[Neighbour]) -> None:
    needs(place, *kind.needs)
    neighbour = kind(place, tmp_path / "log")
    alone = {}
    neighbour.start()
    neighbour.stop()
    for step in (neighbour.start, neighbour.reload):  # the first start makes them in another order than all that follow
        step()
        alone[step] = others_rules(place)
    assert alone[neighbour.start], "it has rules"
    with lab.daemon(MODULES, EAGER) as daemon:
        downloads = Downloads(lab, daemon)
        for step in (neighbour.reload, neighbour.stop, neighbour.start):
            downloads.go_on()
            step()
            assert step == neighbour.stop or others_rules(place) == alone[step], step
            assert system.wait_until(lambda: in_force(daemon), 5), state(daemon)
        downloads.go_on()
        downloads.end()
        never_in_doubt(daemon)
        assert left_of_tandem(lab), "while it runs they are there"
    assert others_rules(place) == alone[neighbour.start] and left_of_tandem(lab) == []
    neighbour.stop()


class WireGuard:
    """wg-quick with the user-space WireGuard at both ends: everything goes to the lab's server in a tunnel."""

    DEVICE, FAR_DEVICE, PORT = "wg0", "wg9", 51820

    def __init__(self, lab: Lab, place: Place, log: Path) -> None:
        self._place, server = place, lab.server()
        self._far = server.namespace
        keys = {end: place.run("wg", "genkey").stdout.strip() for end in ("near", "far")}
        public = {end: place.run("wg", "pubkey", input=key).stdout.strip() for end, key in keys.items()}
        place.write(f"/etc/wireguard/{self.DEVICE}.conf", f"""[Interface]
PrivateKey = {keys["near"]}
Address = 10.99.0.2/24, fd99::2/64
[Peer]
PublicKey = {public["far"]}
AllowedIPs = 0.0.0.0/0, ::/0
Endpoint = {server.ipv4}:{self.PORT}
""", "600")
        place.write("/etc/wireguard/far.conf", f"""[Interface]
PrivateKey = {keys["far"]}
ListenPort = {self.PORT}
[Peer]
PublicKey = {public["near"]}
AllowedIPs = 10.99.0.2/32, fd99::2/128
""", "600")
        self._server = place.start("wireguard-go", "--foreground", self.FAR_DEVICE, log=log, namespace=self._far)
        assert system.wait_until(lambda: server.run(["ip", "link", "show", self.FAR_DEVICE], check=False).returncode == 0, LONG_ENOUGH), log.read_text()
        place.run("wg", "setconf", self.FAR_DEVICE, "/etc/wireguard/far.conf", namespace=self._far)
        for words in (f"address add 10.99.0.1/24 dev {self.FAR_DEVICE}", f"address add fd99::1/64 dev {self.FAR_DEVICE} nodad", f"link set {self.FAR_DEVICE} mtu 1420 up"):
            server.run(["ip", *words.split()])

    def up(self) -> None:
        self._place.run("wg-quick", "up", self.DEVICE)

    def down(self) -> None:
        self._place.run("wg-quick", "down", self.DEVICE)

    def stop(self) -> None:
        self._place.run("wg-quick", "down", self.DEVICE, check=False)
        end(self._server)


def test_nothing_leaves_in_clear_beside_wg_quick(lab: Lab, place: Place, tmp_path: Path) -> None:
    """What lab.vpn does with a tunnel that is made up, with the program that people use."""
    needs(place, "wireguard-go", "wg", "wg-quick")
    if not Path("/dev/net/tun").exists():
        pytest.skip("/dev/net/tun is missing")
    tunnel = WireGuard(lab, place, tmp_path / "log")
    try:
        with lab.daemon(MODULES, EAGER) as daemon:
            older = [lab.start_download("100M", timeout=60), lab.start_download("100M", v6=True, timeout=60)]
            by_cellular(daemon, older[0])
            with captured(lab) as files:
                tunnel.up()
                assert system.wait_until(lambda: hands_off(daemon) != "", LONG_ENOUGH)
                since = time.time() + 0.3
                through = lab.download("1M", timeout=60)
                time.sleep(1.0)
                told = state(daemon)
            assert through.error is None
            left = {device: packets(file, since) for device, file in files.items()}
            assert {device: (len(lines), lines[:5]) for device, lines in left.items() if lines} == {}
            carried = int(place.run("wg", "show", tunnel.DEVICE, "transfer").stdout.split()[1])
            assert carried > 1_000_000, "it came by the tunnel"
            assert told["hands_off"].startswith(f"the default route leads into {tunnel.DEVICE} ") and told["links"]["cell"]["denied"] == told["hands_off"]
            for download in older:
                download.stop()
            tunnel.down()
            assert system.wait_until(lambda: hands_off(daemon) == "", LONG_ENOUGH)
            the_next_goes_by_cellular(lab, daemon)
            never_in_doubt(daemon)
    finally:
        tunnel.stop()
    assert left_of_tandem(lab) == []


NETWORKD = "/lib/systemd/systemd-networkd"
DOCK = """[Match]
Name=dock0
[Network]
LinkLocalAddressing=no
IPv6AcceptRA=no
Address=10.55.0.2/24
"""


@pytest.fixture
def dock(lab: Lab) -> Iterator[None]:
    """One more interface."""
    lab.client.run(["ip", "link", "add", "dock0", "type", "veth", "peer", "name", "dock1"])
    lab.client.run(["ip", "link", "set", "dock1", "up"])
    yield
    lab.client.run(["ip", "link", "del", "dock0"])


def test_rules_that_systemd_networkd_removes_come_back(lab: Lab, place: Place, dock: None, tmp_path: Path) -> None:
    """It takes all rules away that it has not made when an interface of its own is configured anew, be it that of a dock."""
    if virtual.inside():
        pytest.skip("what systemd-networkd is shown of the file system leads out of the one of the kernel of virtual time")
    needs(place, NETWORKD, "networkctl", "systemd-sysusers", "dbus-daemon")
    log = tmp_path / "log"
    place.bus(log)
    place.write("/etc/systemd/network/10-dock.network", DOCK)
    # Unpacked, not installed: nobody has made its user yet.
    place.run("systemd-sysusers", "/usr/lib/sysusers.d/systemd-network.conf")
    place.run("sh", "-c", "mkdir -p /run/systemd/netif && chown systemd-network:systemd-network /run/systemd/netif")

    def steered() -> bool:
        return all("8484" in lab.client.run(["ip", version, "rule", "show", "priority", "8484"]).stdout
                   and "cell0" in lab.client.run(["ip", version, "route", "show", "table", "8484"]).stdout for version in ("-4", "-6"))

    def configured() -> bool:
        return "configured" in place.run("networkctl", "list", "dock0", check=False).stdout

    with lab.daemon(MODULES, EAGER) as daemon:
        downloads = Downloads(lab, daemon)
        downloads.go_on()
        networkd = place.start(NETWORKD, log=log)
        assert system.wait_until(configured, LONG_ENOUGH), log.read_text()
        for number in (1, 2):
            place.run("networkctl", "reconfigure", "dock0")
            assert system.wait_until(lambda: state(daemon)["keeper"]["restored"] >= number, LONG_ENOUGH), daemon.log.read_text()
            assert system.wait_until(steered, 5) and system.wait_until(configured, 5)
            downloads.go_on()
        assert "took rules of Tandem's away" in daemon.log.read_text()
        downloads.end()
        assert "10.55.0.2/24" in lab.client.run(["ip", "address", "show", "dock0"]).stdout, "what it does for its own interface stands"
        never_in_doubt(daemon)
        end(networkd)
    assert left_of_tandem(lab) == []


ONLINE = b"online"
NM_CONF = """[main]
plugins=keyfile
auth-polkit=false
dns=none
no-auto-default=*
[connectivity]
uri=http://{server}/check
response=online
interval=1
"""
# The lab's interfaces are TAP devices, mode 2.
NM_PROFILE = """[connection]
id={interface}
type=tun
interface-name={interface}
[tun]
mode=2
[ipv4]
method=manual
address1={v4},{gateway_v4}
route-metric={metric}
[ipv6]
method=manual
address1={v6},{gateway_v6}
route-metric={metric}
"""
PROFILES = ({"interface": "wlan0", "v4": "10.77.1.2/24", "gateway_v4": "10.77.1.1", "v6": "fd77:1::2/64", "gateway_v6": "fd77:1::1", "metric": 100},
            {"interface": "cell0", "v4": "10.77.2.2/24", "gateway_v4": "10.77.2.1", "v6": "fd77:2::2/64", "gateway_v6": "fd77:2::1", "metric": 600})


class NetworkManager:
    """It has made the connections of both links, and looks every second whether they lead anywhere."""

    def __init__(self, lab: Lab, place: Place, log: Path) -> None:
        needs(place, "NetworkManager", "nmcli", "dbus-daemon")
        self._place, self._lab = place, lab
        self.address = place.bus(log)
        self.online(True)
        place.write("/etc/NetworkManager/NetworkManager.conf", NM_CONF.format(server=lab.server().ipv4))
        for profile in PROFILES:
            place.write(f"/etc/NetworkManager/system-connections/{profile['interface']}.nmconnection", NM_PROFILE.format(**profile), "600")
        self._process = place.start("NetworkManager", "--no-daemon", log=log)
        assert system.wait_until(lambda: place.run("nmcli", "general", check=False).returncode == 0, LONG_ENOUGH), log.read_text()
        self.activate()

    def nmcli(self, *words: str) -> str:
        return self._place.run("nmcli", "--terse", *words).stdout

    def activate(self) -> None:
        for profile in PROFILES:
            self.nmcli("connection", "up", str(profile["interface"]))

    def online(self, yes: bool) -> None:
        self._lab.add_file("check", ONLINE if yes else b"please sign in")

    def stop(self) -> None:
        end(self._process)


@pytest.fixture
def network_manager(lab: Lab, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NetworkManager]:
    made = NetworkManager(lab, place, tmp_path / "log")
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", made.address)
    yield made
    made.stop()


def test_network_manager_activates_connections_anew(lab: Lab, network_manager: NetworkManager) -> None:
    """Addresses and routes of both links go and come back while a download runs."""
    with lab.daemon(MODULES, EAGER) as daemon:
        downloads = Downloads(lab, daemon)
        for _ in range(2):
            downloads.go_on()
            network_manager.activate()
            assert system.wait_until(lambda: in_force(daemon), LONG_ENOUGH), state(daemon)
        downloads.go_on()
        downloads.end()
        never_in_doubt(daemon)
    assert left_of_tandem(lab) == []
    assert network_manager.nmcli("-f", "DEVICE,STATE", "device").count(":connected") >= len(PROFILES)


def test_network_manager_says_what_is_metered(lab: Lab, network_manager: NetworkManager) -> None:
    with lab.daemon(MODULES, {**EAGER, "cell": {"metered": "never"}}) as daemon:
        for metered in ("yes", "no"):
            network_manager.nmcli("connection", "modify", "cell0", "connection.metered", metered)
            network_manager.nmcli("device", "reapply", "cell0")
            denied = "metered" if metered == "yes" else ""
            assert system.wait_until(lambda: state(daemon)["links"]["cell"]["denied"] == denied, LONG_ENOUGH), state(daemon)["links"]["cell"]
            before = cell_bytes(daemon)
            assert lab.download("piece", timeout=60).error is None
            assert (cell_bytes(daemon) > before) == (metered == "no")


def test_a_captive_portal_that_network_manager_finds(lab: Lab, network_manager: NetworkManager) -> None:
    with lab.daemon(MODULES, {**EAGER, "links": {"validation": "auto"}}) as daemon:
        Downloads(lab, daemon).go_on()
        network_manager.online(False)
        assert system.wait_until(lambda: "captive portal" in hands_off(daemon), LONG_ENOUGH), network_manager.nmcli("device", "show", "wlan0")
        before = cell_bytes(daemon)
        assert lab.download("piece", timeout=60).error is None
        assert cell_bytes(daemon) == before
        network_manager.online(True)
        assert system.wait_until(lambda: hands_off(daemon) == "", LONG_ENOUGH)
        the_next_goes_by_cellular(lab, daemon)
