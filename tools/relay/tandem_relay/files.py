"""The files for wg-quick(8): two on the laptop, two on the relay. Pure: keys are handed in."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Mapping

LAPTOP_WIFI, LAPTOP_CELL = "tandem-wifi", "tandem-cell"  # links.relay of tandem.toml
RELAY_WIFI, RELAY_CELL = "tandem-w", "tandem-c"
CELL_MARK = 0x54  # as Tandem looks for it
# Seconds. A NAT forgets UDP after 30 s or more (RFC 4787, REQ-5: 2 min), TCP after hours: without it a server's word on a quiet connection would be lost,
# and after another Wi-Fi network the relay would not learn where the laptop is until that sends something, which a download need not.
KEEPALIVE = 25


@dataclass(frozen=True)
class Keys:
    """A private key and its public one, base64 as wg(8) writes them."""

    private: str
    public: str


@dataclass(frozen=True)
class Relay:
    """Where the relay is, and what is inside the tunnels. Of the inner networks .1, .2 and .3 are used (::1 to ::3)."""

    host: str  # a name or an address of either IP version
    wifi_port: int = 51820
    cell_port: int = 51821
    inner_v4: IPv4Network = IPv4Network("10.84.0.0/24")
    inner_v6: IPv6Network = IPv6Network("fd84:7464::/64")

    def endpoint(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def addresses(self, number: int) -> tuple[str, str]:
        """Of both IP versions, with the prefix of a single address."""
        return f"{self.inner_v4[number]}/32", f"{self.inner_v6[number]}/128"


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _section(name: str, *lines: str) -> str:
    return "\n".join([f"[{name}]", *lines]) + "\n"


def files(relay: Relay, keys: Mapping[str, Keys]) -> dict[str, str]:
    """Every file by its path below the directory. `keys`: of each of the four interfaces."""
    # Without an address of its own an interface takes nothing while its source is looked at (rp_filter), however loosely.
    own, one, two = (relay.addresses(number) for number in (1, 2, 3))
    everything = "AllowedIPs = 0.0.0.0/0, ::/0"
    laptop_wifi = "\n".join([
        "# The tunnel that leaves by Wi-Fi, and has the default route while it is up. Put into /etc/wireguard on the laptop.",
        _section("Interface", f"PrivateKey = {keys[LAPTOP_WIFI].private}", f"Address = {', '.join(one)}"),
        _section("Peer", f"PublicKey = {keys[RELAY_WIFI].public}", everything, f"Endpoint = {relay.endpoint(relay.wifi_port)}", f"PersistentKeepalive = {KEEPALIVE}")])
    laptop_cell = "\n".join([
        "# The tunnel that leaves by the cellular link, for what Tandem sends there: no route leads into it. By the mark of its packets Tandem",
        "# finds them and gives them the cellular link. Put into /etc/wireguard on the laptop.",
        _section("Interface", f"PrivateKey = {keys[LAPTOP_CELL].private}", f"Address = {', '.join(two)}", "Table = off", f"FwMark = {CELL_MARK:#x}"),
        _section("Peer", f"PublicKey = {keys[RELAY_CELL].public}", everything, f"Endpoint = {relay.endpoint(relay.cell_port)}")])
    # By either tunnel may come what has the first one's address: that is what a relay is for. So no strict look at where it comes from.
    # A router takes no route from router advertisements unless told (accept_ra 2), and the relay's own may come from there.
    keep_routes = "PostUp = for f in /proc/sys/net/ipv6/conf/*/accept_ra; do [ \"$(cat $f)\" = 1 ] && echo 2 > $f || true; done"
    forwarding = [keep_routes] + [f"PostUp = sysctl -q -w {name}" for name in (
        "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=2", "net.ipv4.conf.%i.rp_filter=2")]
    table = "inet tandem_relay"
    masquerade = [f"PostUp = nft 'add table {table}; add chain {table} out {{ type nat hook postrouting priority srcnat; }}; "
                  f"add rule {table} out ip saddr {relay.inner_v4} oifname != \"tandem-*\" masquerade; "
                  f"add rule {table} out ip6 saddr {relay.inner_v6} oifname != \"tandem-*\" masquerade'",
                  f"PostDown = nft delete table {table}"]
    relay_wifi = "\n".join([
        "# The relay's end of the laptop's tunnel by Wi-Fi. Put into /etc/wireguard on the relay.",
        _section("Interface", f"PrivateKey = {keys[RELAY_WIFI].private}", f"Address = {', '.join(own)}", f"ListenPort = {relay.wifi_port}", "Table = off", *forwarding, *masquerade,
                 *_routes(one)),
        _section("Peer", f"PublicKey = {keys[LAPTOP_WIFI].public}", f"AllowedIPs = {', '.join(one)}")])
    relay_cell = "\n".join([
        "# The relay's end of the laptop's tunnel by the cellular link. Put into /etc/wireguard on the relay.",
        _section("Interface", f"PrivateKey = {keys[RELAY_CELL].private}", f"Address = {', '.join(own)}", f"ListenPort = {relay.cell_port}", "Table = off", *forwarding, *_routes(two)),
        _section("Peer", f"PublicKey = {keys[LAPTOP_CELL].public}", f"AllowedIPs = {', '.join((*one, *two))}")])
    return {f"laptop/{LAPTOP_WIFI}.conf": laptop_wifi, f"laptop/{LAPTOP_CELL}.conf": laptop_cell,
            f"relay/{RELAY_WIFI}.conf": relay_wifi, f"relay/{RELAY_CELL}.conf": relay_cell}


def _routes(addresses: tuple[str, str]) -> list[str]:
    return [f"PostUp = ip {family} route replace {address} dev %i" for family, address in zip(("-4", "-6"), addresses)]
