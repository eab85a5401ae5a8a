"""Simulated radios of mac80211_hwsim, made and removed while it runs: generic netlink, family MAC80211_HWSIM.

Module parameters would do for a whole machine; where hwsim is built into the kernel nobody can set them afterwards.
"""

from __future__ import annotations

import socket
import struct

_NETLINK_GENERIC, _GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, _CTRL_ATTR_FAMILY_ID, _CTRL_ATTR_FAMILY_NAME = 16, 16, 3, 1, 2
_REQUEST, _ACK, _ERROR = 1, 4, 2
_NEW_RADIO, _DEL_RADIO, _CHANNELS, _RADIO_ID = 4, 5, 9, 10  # drivers/net/wireless/mac80211_hwsim.h


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _ask(port: socket.socket, family: int, command: int, attributes: bytes) -> list[bytes]:
    """The answers' bodies. Raises OSError."""
    body = struct.pack("=BBH", command, 1, 0) + attributes
    port.send(struct.pack("=IHHII", 16 + len(body), family, _REQUEST | _ACK, 1, 0) + body)
    answers: list[bytes] = []
    while True:
        data = port.recv(65536)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            if kind == _ERROR:
                code = struct.unpack_from("=i", data, 16)[0]
                if code < 0:
                    raise OSError(-code, f"hwsim, command {command}")
                return answers  # above 0: the number of a new radio
            answers.append(data[20:length])
            data = data[(length + 3) & ~3 :]


def _with_family(command: int, attributes: bytes) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as port:
        port.bind((0, 0))
        told = _ask(port, _GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, _attribute(_CTRL_ATTR_FAMILY_NAME, b"MAC80211_HWSIM\0"))[0]
        while told:
            length, kind = struct.unpack_from("=HH", told)
            if kind == _CTRL_ATTR_FAMILY_ID:
                _ask(port, struct.unpack_from("=H", told, 4)[0], command, attributes)
                return
            told = told[(length + 3) & ~3 :]
    raise SystemExit("the kernel does not know the family MAC80211_HWSIM")


def add(channels: int) -> None:
    """A radio that can be on so many channels at a time, with an interface."""
    _with_family(_NEW_RADIO, _attribute(_CHANNELS, struct.pack("=I", channels)))


def remove(number: int) -> None:
    """The radio that was made as the one of this number, from 0."""
    _with_family(_DEL_RADIO, _attribute(_RADIO_ID, struct.pack("=I", number)))
