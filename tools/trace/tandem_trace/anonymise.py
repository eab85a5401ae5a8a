"""A copy of a capture that can be given away: other addresses, no payload, nothing but IP and TCP.

Addresses keep their common prefixes: two that share their first n bits share n bits afterwards, and no more (Xu, Fan, Ammar and Moon, "Prefix-preserving IP address
anonymization", ICNP 2002: Crypto-PAn). AES comes from the cryptography package.
"""

from __future__ import annotations

import ipaddress
import secrets
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .errors import BadInput, TraceError
from .pcap import opened

KEY_BYTES = 32
# Kept as they are: what belongs to no one (RFC 1122, RFC 4291).
WELL_KNOWN = tuple(map(ipaddress.ip_network, ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/128", "::1/128", "ff00::/8")))


class PrefixPreserving:
    """Crypto-PAn. `key`: 16 bytes for AES, and 16 that are encrypted to the padding."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise BadInput(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        except ImportError as fault:
            raise TraceError("the package python3-cryptography is needed") from fault
        self._encrypt = Cipher(algorithms.AES(key[:16]), modes.ECB()).encryptor().update
        self._pad = int.from_bytes(self._encrypt(key[16:]), "big")
        self.address = lru_cache(maxsize=100_000)(self._address)

    def _address(self, packed: bytes) -> bytes:
        if any(ipaddress.ip_address(packed) in network for network in WELL_KNOWN):
            return packed
        width = len(packed) * 8
        original, flipped = int.from_bytes(packed, "big"), 0
        for kept in range(width):
            # The first `kept` bits of the address, the rest of the padding; one bit of what that is encrypted to.
            rest = (1 << (128 - kept)) - 1
            block = (original >> (width - kept) << (128 - kept)) | (self._pad & rest)
            flipped = flipped << 1 | self._encrypt(block.to_bytes(16, "big"))[0] >> 7
        return (original ^ flipped).to_bytes(len(packed), "big")


def total(data: bytes, start: int = 0) -> int:
    """One's complement sum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    value = start + sum(struct.unpack(f">{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value


class Anonymiser:
    """`key`: of the addresses; None leaves them as they are."""

    def __init__(self, key: bytes | None) -> None:
        self.address = PrefixPreserving(key).address if key else bytes

    def packet(self, ip: bytes, on_wire: int = 0) -> tuple[bytes, int] | None:
        """The packet's headers with other addresses, and its length on the wire; None when it is no TCP over IP that was recorded with its whole header.
        `on_wire`: as the capture says, for segments of the kernel's own making that say no length themselves."""
        ip, left_out = without_extensions(ip)
        on_wire -= left_out
        version = ip[0] >> 4 if ip else 0
        if version == 4 and len(ip) >= 20:
            begin, where, size, protocol = (ip[0] & 15) * 4, 12, 4, ip[9]
            length = int.from_bytes(ip[2:4], "big")
            fragment = int.from_bytes(ip[6:8], "big") & 0x3FFF
        elif version == 6 and len(ip) >= 40:
            begin, where, size, protocol, fragment = 40, 8, 16, ip[6], 0
            length = 40 + int.from_bytes(ip[4:6], "big")
        else:
            return None
        if length == (0 if version == 4 else 40):
            length = on_wire
        if protocol != 6 or fragment or begin < 20 or len(ip) < begin + 20:
            return None
        end = begin + (ip[begin + 12] >> 4) * 4
        if end < begin + 20 or end > len(ip) or length < end:
            return None
        head = bytearray(ip[:end])
        for at in (where, where + size):
            head[at:at + size] = self.address(bytes(head[at:at + size]))
        payload = length - end
        self._options(head, begin + 20, end)
        if version == 4:
            # Options of IP may name addresses.
            head[20:begin] = b"\1" * (begin - 20)
            head[10:12] = b"\0\0"
            head[10:12] = (total(bytes(head[:begin])) ^ 0xFFFF).to_bytes(2, "big")
        # As of a payload of zeros, so that what checks checksums is content.
        head[begin + 16:begin + 18] = b"\0\0"
        pseudo = bytes(head[where:where + 2 * size]) + struct.pack(">II", 6, end - begin + payload)
        head[begin + 16:begin + 18] = (total(pseudo + bytes(head[begin:end])) ^ 0xFFFF).to_bytes(2, "big")
        return bytes(head), max(length, end)

    @staticmethod
    def _options(head: bytearray, at: int, end: int) -> None:
        """Of options only those stay that say nothing of who it is: not Fast Open cookies, MPTCP keys and addresses, signatures."""
        harmless = {2, 3, 4, 5, 8}
        while at < end and head[at] != 0:
            if head[at] == 1:
                at += 1
                continue
            size = head[at + 1] if at + 1 < end else 0
            if size < 2 or at + size > end:
                head[at:end] = b"\1" * (end - at)
                return
            if head[at] not in harmless:
                head[at:at + size] = b"\1" * size
            at += size
        head[at:end] = bytes(end - at)  # behind the end of the options


def without_extensions(ip: bytes) -> tuple[bytes, int]:
    """An IPv6 packet without hop-by-hop and destination options, which may say anything, and how many bytes these were."""
    if len(ip) < 40 or ip[0] >> 4 != 6:
        return ip, 0
    protocol, at = ip[6], 40
    while protocol in (0, 60) and at + 8 <= len(ip):
        protocol, at = ip[at], at + (ip[at + 1] + 1) * 8
    length = int.from_bytes(ip[4:6], "big")
    return ip[:4] + max(0, length - (at - 40)).to_bytes(2, "big") + bytes([protocol]) + ip[7:40] + ip[at:], at - 40


@dataclass(frozen=True)
class Copied:
    kept: int  # TCP packets
    left_out: int  # others
    fault: str  # of a source that is damaged: what is behind it is not in the copy; empty: none


def anonymise(source: Path, target: Path, key: bytes | None, keep_addresses: bool = False) -> Copied:
    """Writes the copy, whole or not at all; of a source that is damaged what is before the damage."""
    from tandem_common.whole import written_whole

    work = Anonymiser(None if keep_addresses else key or secrets.token_bytes(KEY_BYTES))
    kept = left_out = 0
    with opened(source) as capture, written_whole(target) as fresh, fresh.open("wb") as out:
        capture.begin(out)
        for packet in capture:
            made = work.packet(packet.ip, packet.length)
            if made is None:
                left_out += 1
            else:
                kept += 1
                before = work.packet(packet.before, packet.length) if packet.before is not None else None
                capture.write(out, packet, *made, before[0] if before else None)
    return Copied(kept, left_out, capture.fault)

