"""Somebody off the path, who knows addresses and ports of a download but not its numbers, gains nothing by what he sends in the server's name,
by IPv4 or IPv6, with every module on."""

from __future__ import annotations

import subprocess
import time

import pytest

from tandem_lab import system

pytest.importorskip("scapy", reason="python3-scapy is missing")

# Beside the access point: what it sends looks as if it came from the server. The first segment of the download tells where its numbers are,
# so that none of the forged ones is inside a window by chance: then kernel TCP would be at its mercy, too.
ATTACKER = r"""
import random, socket, struct, sys, time
from scapy.all import ICMP, IP, TCP, ICMPv6DestUnreach, ICMPv6PacketTooBig, ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, Raw, raw, sniff
server, client, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
v6 = ":" in server
ip = IPv6 if v6 else IP
chance = random.Random(1)
print("ready", flush=True)
seen = sniff(iface=sys.argv[4], lfilter=lambda p: TCP in p and ip in p and p[ip].src == server and len(p[TCP].payload) > 0, count=1, timeout=10)[0]
port, sport, seq, ack = seen[TCP].dport, seen[TCP].sport, seen[TCP].seq, seen[TCP].ack
far = lambda number: (number + (1 << 31) + chance.randrange(-(1 << 28), 1 << 28)) % (1 << 32)
def segment(flags, payload=b"", **more):
    options = [("Timestamp", (chance.randrange(1 << 32), chance.randrange(1 << 32)))] if chance.random() < 0.7 else []
    return TCP(sport=sport, dport=port, seq=far(seq), ack=far(ack), flags=flags, window=chance.choice([0, 1, 65535]), options=options, **more) / Raw(payload)
def quoted(message):
    inner = ip(src=client, dst=server) / TCP(sport=port, dport=sport, seq=far(ack), ack=far(seq), flags="A")
    return message / Raw(raw(inner)[:28 if not v6 else 60])
def odd():
    good = raw(ip(src=server, dst=client) / segment("A"))
    cut = bytearray(good)
    cut[52 if v6 else 32] = chance.choice([0x00, 0x10, 0xf0])  # a data offset that cannot be
    return ip(bytes(cut))
def messages():
    if not v6:
        return [ICMP(type=kind, code=code, **more) for kind, code, more in ((3, 1, {}), (3, 3, {}), (3, 4, {"nexthopmtu": 68}), (4, 0, {}), (11, 0, {}))]
    return [ICMPv6DestUnreach(code=0), ICMPv6DestUnreach(code=4), ICMPv6PacketTooBig(mtu=68), ICMPv6PacketTooBig(mtu=1280), ICMPv6ParamProblem(code=1), ICMPv6TimeExceeded()]
def headers():
    # before a reset
    return [IPv6ExtHdrDestOpt(), IPv6ExtHdrFragment(offset=0, m=0), IPv6ExtHdrFragment(offset=3, m=0)] if v6 else []
made = []
for _ in range(12):
    made += [ip(src=server, dst=client) / body for body in (
        segment("R"), segment("RA"), segment("S"), segment("SA"), segment("FA"), segment("PA", b"X" * 1000), segment("A"), segment("AE"), segment("UA", urgptr=9),
        *(quoted(message) for message in messages()), *(header / segment("R") for header in headers()))] + [odd()]
packets = [raw(packet) for packet in made]
chance.shuffle(packets)
out, sent, end = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW), 0, time.monotonic() + seconds
while time.monotonic() < end:
    out.sendto(packets[sent % len(packets)], (client, 0))
    sent += 1
    time.sleep(0.0005)
print(sent)
"""


@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
def test_forged_segments_and_icmp_change_nothing(air_lab, v6) -> None:
    place = air_lab.endpoint("ap1")
    server, client = (end.ipv6 if v6 else end.ipv4 for end in (air_lab.server(), air_lab.client))
    route = place.run(["ip", "-o", "route", "get", server]).stdout.split()
    argv = ["/usr/bin/python3", "-c", ATTACKER, server, client, "1.5", route[route.index("dev") + 1]]

    def attacked() -> object:
        attacker = place.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert attacker.stdout and attacker.stdout.readline() == "ready\n"
        time.sleep(0.3)  # until it listens
        going = air_lab.start_download("random", sha256=True, v6=v6)
        told, errors = attacker.communicate(timeout=30)
        assert attacker.returncode == 0 and int(told.split()[-1]) > 500, errors
        result = going.wait()
        assert result.error is None and result.sha256 == air_lab.random_file["sha256"]
        return result

    without = attacked()
    with air_lab.daemon(["offload", "freeze", "mirror", "ecn", "rate"], {"modules": {"offload": {"added_delay_free": "250ms"}}}) as daemon:
        with_tandem = attacked()
        status = daemon.api("/v1/status")
        assert status["datapath"]["unacceptable"] > 100, "they were seen, and made nothing of"
        assert status["datapath"]["mid_flow"] == 0
        for module in status["modules"]:
            assert module["faults"] == 0 and module["violations"] == {} and module["excluded"] == 0, module["name"]
        assert status["keeper"]["suspensions"] == 0
        assert all(flow["bypass"] == "none" for flow in daemon.api("/v1/flows") if flow["remote"] in (f"{server}:80", f"[{server}]:80"))
        # The same download, alone, leaves nothing behind.
        assert system.wait_until(lambda: daemon.api("/v1/status")["flows"]["count"] <= 1, 15)
    assert with_tandem.seconds < 2 * without.seconds
