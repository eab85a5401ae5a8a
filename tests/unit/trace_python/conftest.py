"""Where the code is, and the program that it asks."""

from __future__ import annotations

import json
import os
import socketserver
import struct
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools/trace"), str(ROOT / "tools/common")]
os.environ.setdefault("TANDEM_PROGRAM", str(ROOT / "build/bin/tandem"))

from tandem_common.pcapng import INPUT, INTERFACE, PACKET  # noqa: E402
from tandem_trace.looks import Block, blocks  # noqa: E402

GOLDEN = ROOT / "tests/golden/trace"


@pytest.fixture
def golden() -> Path:
    return GOLDEN


class Control:
    """A control socket: `answers` has what is told by path; what is not there is a 404."""

    def __init__(self, path: Path):
        self.path, self.answers, self.asked = path, {}, []
        self.faults = {}  # words of what is refused, by path
        self.recording = None  # asked with what stands behind /v1/recording, for a recorder that goes on
        control = self

        class Handler(BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return ""

            def log_message(self, *_) -> None:
                pass

            def do_GET(self) -> None:
                control.asked.append(self.path)
                path, _, wanted = self.path.partition("?")
                body = control.recording(wanted) if control.recording and path == "/v1/recording" else control.answers.get(self.path)
                body = body() if callable(body) else body
                self.send_response(200 if body is not None else 404)
                content = body if isinstance(body, bytes) else json.dumps(body if body is not None else {"error": control.faults.get(path, "no such path")}).encode()
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def control(tmp_path):
    made = Control(tmp_path / "control.sock")
    yield made
    made.server.shutdown()
    made.server.server_close()


class Recorder:
    """The daemon's flight recorder that goes on: of the golden recording's packets, with an input of the chain after each fifth, the first `at` were, the last `ring` of these are kept. `wanted` of look() is
    the query of /v1/recording."""

    def __init__(self, recording: bytes):
        told = list(blocks(recording))
        self._heads = [block.raw for block in told if block.kind == INTERFACE]
        self.entries = []
        for number, block in enumerate(block for block in told if block.kind == PACKET):
            self.entries += [block] + ([Block(INPUT, struct.pack("<IIQI4sI", INPUT, 28, number, 4, b"\xee" * 4, 28))] if number % 5 == 0 else [])
        self.at, self.ring, self.seed, self.offset_ns, self.asked = 0, 1 << 30, 1, 0, []

    def packets(self, end: int, begin: int = 0) -> list[bytes]:
        """Of these entries, without their place and time."""
        return [block.raw[20:] for block in self.entries[begin:end] if block.kind == PACKET]

    def look(self, wanted: str = "") -> bytes:
        self.asked.append(wanted)
        first = max(0, self.at - self.ring)
        if wanted.startswith("after="):
            first = max(first, min(int(wanted.removeprefix("after=")), self.at))
        elif wanted:
            first = self.at
        packets = sum(block.kind == PACKET for block in self.entries[:first])
        comment = f"tandem trace\nseed: {self.seed}\nrealtime offset ns: {self.offset_ns}\npackets before: {packets}\nentries before: {first}".encode()
        body = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + struct.pack("<HH", 1, len(comment)) + comment + b"\0" * (-len(comment) % 4 + 4)
        size = struct.pack("<I", len(body) + 12)
        return b"\x0a\x0d\x0d\x0a" + size + body + size + b"".join(self._heads) + b"".join(self._moved(block) for block in self.entries[first:self.at])

    def _moved(self, block: Block) -> bytes:
        if block.kind != PACKET:
            return block.raw
        high, low = struct.unpack_from("<II", block.raw, 12)
        time_ns = (high << 32 | low) + self.offset_ns
        return block.raw[:12] + struct.pack("<II", time_ns >> 32, time_ns & 0xFFFFFFFF) + block.raw[20:]


@pytest.fixture
def recorder(golden) -> Recorder:
    return Recorder((golden / "tandem.pcapng").read_bytes())


def needs_scripts(home: Path) -> None:
    """Skips where Wireshark would run no script below this $HOME."""
    script = home / ".local/lib/wireshark/plugins/trial.lua"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("-- nothing\n")
    loaded = "trial.lua" in subprocess.run(["tshark", "-G", "plugins"], capture_output=True, text=True, check=True).stdout
    script.unlink()
    if not loaded and os.geteuid() == 0:
        pytest.skip("this release of Wireshark runs no scripts of root's (4.2 and 4.4 do not)")
