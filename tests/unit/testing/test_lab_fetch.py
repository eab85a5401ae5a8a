"""The lab's downloader, where somebody downloads without end."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from pathlib import Path

FETCH = Path(__file__).resolve().parents[3] / "tools" / "lab" / "tandem_lab" / "fetch.py"


class Server(http.server.BaseHTTPRequestHandler):
    """Breaks the first answer off, refuses the second one, gives the third."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.server.asked == 2:
            return self.send_error(503)
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * (10 if self.server.asked == 1 else 1000))
        if self.server.asked == 4:
            self.server.often.set()
        return None


def test_others_begin_again_whatever_ends_a_download() -> None:
    """After nine hours of an uplink of 25 Mbit/s, or a connection that broke, it was idle."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.asked, server.often = 0, threading.Event()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    fetching = subprocess.Popen([sys.executable, "-B", str(FETCH), "127.0.0.1", "/x", "--port", str(server.server_port), "--timeout", "1e9", "--again"], stdout=subprocess.DEVNULL)
    try:
        assert server.often.wait(30.0), f"{server.asked} requests"
        assert fetching.poll() is None
    finally:
        fetching.kill()
        fetching.wait()
        server.shutdown()
        server.server_close()
