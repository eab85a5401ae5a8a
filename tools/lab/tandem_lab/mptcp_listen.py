#!/usr/bin/python3
"""Starts nginx with listening sockets that speak MPTCP: mptcp_listen.py NGINX ARGUMENTS...

nginx itself asks for plain TCP. It takes over sockets that it inherits, though (environment variable NGINX, meant for upgrades of the
program while it runs): these are made here with IPPROTO_MPTCP. Clients that do not ask for MPTCP get plain TCP from them.
"""

from __future__ import annotations

import os
import socket
import sys

IPPROTO_MPTCP = 262
PORTS = (80, 443)
BACKLOG = 4096


def main() -> int:
    if len(sys.argv) < 2:
        print("mptcp_listen.py: which program? allowed: NGINX ARGUMENTS...", file=sys.stderr)
        return 2
    descriptors: list[int] = []
    for port in PORTS:
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            try:
                made = socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP)
            except OSError:  # a kernel without MPTCP: plain TCP, and clients that ask get that
                made = socket.socket(family, socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind((address, port))
            made.listen(BACKLOG)
            made.setblocking(False)
            os.set_inheritable(made.fileno(), True)
            descriptors.append(made.detach())
    os.environ["NGINX"] = "".join(f"{number};" for number in descriptors)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
