"""A control socket with made-up modules behind it."""

from __future__ import annotations

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


class FakeDaemon:
    """Modules `offload` (on) and `mirror` (off). `ap`, `interface`, `cell_up`, `cell_bytes`, `why` (not in force), `standing` and `hands_off` may be changed meanwhile."""

    def __init__(self, path: Path):
        self.path, self.ap, self.cell_up, self.cell_bytes, self.why, self.standing = path, "02:00:00:00:00:01", True, 0, "", "acting"
        self.interface, self.asked, self.addresses = "wlan0", [], ["10.0.0.2", "fe80::1"]
        self.hands_off = ""
        self.flows: list[dict[str, Any]] = []
        self.state: dict[str, dict[str, Any]] = {
            "offload": {"enabled": True, "knobs": {"strategy": "validated", "fraction": "0.5", "window_mss": "20"}, "decisions": {}},
            "mirror": {"enabled": False, "knobs": {"threshold": "0.85"}, "decisions": {}}}
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return ""

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self, code: int, content: Any) -> None:
                body = json.dumps(content).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.answer(200, fake.told(self.path))

            def do_PUT(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                parts = self.path.split("/")[3:]
                fake.asked.append((parts, content))
                module = fake.state[parts[0]]
                if len(parts) == 1:
                    module["enabled"] = content["enabled"]
                elif content["value"] == "nonsense":
                    return self.answer(400, {"error": "offload.strategy: allowed: validated, fraction"})
                else:
                    module["knobs"][parts[2]] = content["value"]
                self.answer(200, {})

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def told(self, path: str) -> Any:
        if path == "/v1/modules":
            return [{"name": name, "enabled": module["enabled"], "in_force": module["enabled"] and not self.why, "in_force_why": self.why, "faults": 0,
                     "evidence": {"standing": self.standing}, "decisions": module["decisions"], "knobs": [{"name": knob, "value": value} for knob, value in module["knobs"].items()]}
                    for name, module in self.state.items()]
        if path == "/v1/links":
            return {"wifi": {"aps": [{"ap": self.ap, "associated": True, "signal_dbm": -55, "mbps": 54.0}],
                             "surveys": [{"in_use": True, "frequency_mhz": 2437, "busy_ms": 10, "active_ms": 100}]}, "cell": {}, "steering": {}}
        if path == "/v1/flows":
            return self.flows
        return {"version": "0.1.0", "hands_off": self.hands_off, "evidence": {"share": 0.05}, "datapath": {"cell_bytes": self.cell_bytes},
                "links": {"wifi": {"interface": self.interface, "addresses": self.addresses, "up": True}, "cell": {"up": self.cell_up}}}

    @property
    def on(self) -> set[str]:
        return {name for name, module in self.state.items() if module["enabled"]}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
