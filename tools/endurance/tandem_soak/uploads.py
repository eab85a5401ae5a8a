#!/usr/bin/python3
"""Where uploads go: PUT is answered with the SHA-256 of the body, over HTTP and HTTPS, both IP versions. Runs inside a server's namespace."""

from __future__ import annotations

import hashlib
import socket
import ssl
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HTTP, HTTPS = 8080, 8443
IPPROTO_MPTCP = 262


class Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 300
    # Head and body of an answer leave in one segment.
    wbufsize = 65536

    def do_PUT(self) -> None:  # noqa: N802 - the library's name
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left > 0:
            data = self.rfile.read(min(left, 65536))
            if not data:
                self.close_connection = True
                return
            digest.update(data)
            left -= len(data)
        body = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, port: int, context: ssl.SSLContext | None):
        super().__init__(("::", port), Taker, bind_and_activate=False)
        self.context = context
        with suppress(OSError):  # a kernel without MPTCP
            self.socket = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, IPPROTO_MPTCP)
        self.server_bind()
        self.server_activate()

    def finish_request(self, request: socket.socket, client_address: object) -> None:
        """In the connection's own thread: a handshake that takes long holds nobody up."""
        request.settimeout(Taker.timeout)
        if self.context:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # the client tells what happened to its transfer


def main() -> int:
    directory = Path(sys.argv[1])  # of the lab's certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "lab.crt", directory / "lab.key")
    servers = [Server(HTTP, None), Server(HTTPS, context)]
    print("ready", flush=True)
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
