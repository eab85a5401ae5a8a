"""Copies that can be given away."""

from __future__ import annotations

import ipaddress
import json
import shutil
import struct
import subprocess

import pytest

import captures
from tandem_trace import cli, reader
from tandem_trace.anonymise import PrefixPreserving

# Key, addresses and results that come with Crypto-PAn's own distribution (sample_trace_raw.dat, sample_trace_sanitized.dat).
KEY = bytes([21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16,
             216, 152, 143, 131, 121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2])
SAMPLES = {"128.11.68.132": "135.242.180.132", "129.118.74.4": "134.136.186.123", "130.132.252.244": "133.68.164.234", "141.223.7.43": "141.167.8.160",
           "141.233.145.108": "141.129.237.235", "152.163.225.39": "151.140.114.167", "156.29.3.236": "147.225.12.42", "192.102.249.13": "252.138.62.131"}


def addresses(key=KEY):
    work = PrefixPreserving(key)
    return lambda text: str(ipaddress.ip_address(work.address(ipaddress.ip_address(text).packed)))


@pytest.mark.parametrize("original, expected", SAMPLES.items())
def test_as_crypto_pan_does(original, expected):
    assert addresses()(original) == expected


def common(a, b):
    width = ipaddress.ip_address(a).max_prefixlen
    return width - (int(ipaddress.ip_address(a)) ^ int(ipaddress.ip_address(b))).bit_length()


@pytest.mark.parametrize("a, b", [("10.0.0.1", "10.0.0.2"), ("10.0.0.1", "10.1.0.1"), ("2001:db8::1", "2001:db8::ff"), ("2001:db8::1", "fd00::1")])
def test_prefixes_are_kept(a, b):
    made = addresses()
    assert common(made(a), made(b)) == common(a, b) and made(a) != a


def test_what_belongs_to_no_one_stays():
    for address in ("0.0.0.0", "127.0.0.1", "255.255.255.255", "224.0.0.1", "::", "::1", "ff02::1"):
        assert addresses()(address) == address


@pytest.mark.parametrize("name", ["queue.pcap", "tandem.pcapng"])
def test_a_copy_tells_the_same_story(golden, tmp_path, name):
    copy = tmp_path / "copy.pcapng"
    assert cli.main(["anonymise", str(golden / name), "-o", str(copy)]) == 0

    def stories(file):
        told = json.loads(subprocess.run([reader.program(), "trace", "explain", "--stalls", "--json", str(file)], capture_output=True, text=True, check=True).stdout)
        return [{key: value for key, value in flow.items() if key not in ("local", "remote", "laptop_known_by")} for flow in told["flows"]]

    assert stories(copy) == stories(golden / name)
    assert b"\x0a\x4d\x01\x02" not in copy.read_bytes(), "10.77.1.2"


def without_length(ip):
    """As captures have segments that the kernel made larger than 64 kB, or a card splits."""
    return ip[:2] + b"\0\0" + ip[4:]


def with_extensions(ip):
    """The segment in IPv6, behind hop-by-hop and destination options."""
    options = bytes([60, 0, 1, 4, *b"name", 6, 0, 1, 4, *b"name"])
    ends = (bytes.fromhex("20010db8") + bytes(8) + address for address in (ip[12:16], ip[16:20]))
    return b"\x60\0\0\0" + struct.pack(">HBB", len(options) + int.from_bytes(ip[2:4], "big") - 20, 0, 64) + b"".join(ends) + options + ip[20:]


@pytest.mark.parametrize("made", [without_length, with_extensions])
def test_segments_without_a_length_or_behind_extension_headers_are_in_it(golden, tmp_path, made):
    conversation = captures.read(golden / "radio-silent.pcap")
    file, copy = tmp_path / "x.pcap", tmp_path / "copy.pcapng"
    captures.write(file, [(time_ns, made(ip), length + len(made(ip)) - len(ip)) for time_ns, ip, length in conversation])
    assert cli.main(["anonymise", str(file), "-o", str(copy)]) == 0
    story, told = (reader.story(one, 1) for one in (copy, file))
    assert told["bytes_in"] > 100_000
    for key in ("packets", "bytes_in", "bytes_out", "shortest_rtt_ms"):
        assert story[key] == told[key]
    assert b"name" not in copy.read_bytes()


def test_nothing_of_the_payload_is_in_it(golden, tmp_path):
    copy = tmp_path / "copy.pcapng"
    assert cli.main(["anonymise", str(golden / "radio-silent.pcap"), "-o", str(copy)]) == 0
    assert b"xxxx" in (golden / "radio-silent.pcap").read_bytes() and b"xxxx" not in copy.read_bytes()


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_checksums_of_headers_are_right(golden, tmp_path):
    copy = tmp_path / "copy.pcapng"
    assert cli.main(["anonymise", str(golden / "receive-window.pcap"), "-o", str(copy)]) == 0
    words = ["tshark", "-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-r", str(copy), "-T", "fields"]
    wrong = subprocess.run([*words, "-Y", "ip.checksum.status != 1 || (tcp.len == 0 && tcp.checksum.status != 1)", "-e", "frame.number"],
                           capture_output=True, text=True, check=True)
    assert wrong.stdout == ""
    right = subprocess.run([*words, "-Y", "tcp.checksum.status == 1", "-e", "frame.number"], capture_output=True, text=True, check=True)
    assert len(right.stdout.split()) > 100


def test_a_cut_file_is_copied_up_to_there(golden, tmp_path, capsys):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((golden / "queue.pcap").read_bytes()[:50_000])
    assert cli.main(["anonymise", str(cut), "-o", str(tmp_path / "copy.pcapng")]) == 2
    assert "packets before it" in capsys.readouterr().err
    assert (tmp_path / "copy.pcapng").stat().st_size > 10_000


def test_the_recording_itself_is_not_overwritten(golden, tmp_path, capsys):
    mine = tmp_path / "mine.pcap"
    mine.write_bytes((golden / "queue.pcap").read_bytes())
    (tmp_path / "link.pcap").symlink_to(mine)
    for output in (mine, tmp_path / "link.pcap"):
        assert cli.main(["anonymise", str(mine), "-o", str(output)]) == 2
        assert "is the recording itself" in capsys.readouterr().err
    assert mine.read_bytes() == (golden / "queue.pcap").read_bytes()


def test_a_wrong_key_is_refused(golden, tmp_path, capsys):
    key = tmp_path / "key"
    key.write_bytes(b"short")
    assert cli.main(["anonymise", str(golden / "queue.pcap"), "-o", str(tmp_path / "copy.pcapng"), "--key", str(key)]) == 2
    assert "a key has 32 bytes, not 5" in capsys.readouterr().err


def test_times_before_1970_are_kept(tmp_path):
    """An interface's clock may be off by any offset (if_tsoffset)."""
    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    syn = bytes.fromhex("45000028000040004006000" "00a000002c0000201" "9c4001bb0000000100000000" "5002ffff00000000")
    file, copy = tmp_path / "early.pcapng", tmp_path / "copy.pcapng"
    file.write_bytes(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 101, 0, 0) + struct.pack("<HHqI", 14, 8, -500, 0))
                     + block(6, struct.pack("<IIIII", 0, 0, 250_000, len(syn), len(syn)) + syn))
    assert cli.main(["anonymise", str(file), "-o", str(copy)]) == 0
    times = [json.loads(subprocess.run([reader.program(), "trace", "print", "--json", str(one)], capture_output=True, text=True, check=True).stdout)["time_ns"] for one in (file, copy)]
    assert times == [-499_750_000_000] * 2
