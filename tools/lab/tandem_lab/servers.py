"""Unmodified servers: nginx (HTTP and HTTPS) and iperf3 in every server namespace, run by hand, never as the system service."""

from __future__ import annotations

import hashlib
import random
import subprocess
from pathlib import Path

from . import sockets, system
from .errors import LabError
from .topology import ServerLink

# Sparse files of zeros: they cost no memory, and nothing on the way compresses them.
SIZES = {"1k": 1 << 10, "100k": 100 << 10, "1M": 1 << 20, "10M": 10 << 20, "100M": 100 << 20, "1G": 1 << 30, "100G": 100 << 30}

_HERE = Path(__file__).resolve().parent

# nginx takes over inherited sockets only with a master process. Its worker would outlive a killed master: in a process namespace of its own
# it does not.
_LISTEN_BY_MPTCP = ["unshare", "--pid", "--fork", "--kill-child", system.PYTHON, str(_HERE / "mptcp_listen.py")]

RANDOM_FILE = "random"
RANDOM_SIZE = 10 << 20

_NGINX = """\
worker_processes 1;
master_process {master};
daemon off;
user root;
pid {state}/nginx.pid;
error_log {state}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush off;
  keepalive_timeout 60s;
  default_type application/octet-stream;
  client_body_temp_path {state}/body;
  proxy_temp_path {state}/proxy;
  fastcgi_temp_path {state}/fastcgi;
  uwsgi_temp_path {state}/uwsgi;
  scgi_temp_path {state}/scgi;
  server {{
    listen 80 backlog=4096;
    listen [::]:80 backlog=4096;
    listen 443 ssl backlog=4096;
    listen [::]:443 ssl backlog=4096;
    ssl_certificate {cert}/lab.crt;
    ssl_certificate_key {cert}/lab.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    root {www};
    location /paced/ {{ alias {www}/; limit_rate 600k; }}
  }}
}}
"""


def random_bytes(seed: int, size: int = RANDOM_SIZE) -> bytes:
    """The content of the seeded pseudo-random file."""
    return random.Random(seed).randbytes(size)


def prepare_files(www: Path, seed: int) -> str:
    """Writes the files that every server offers; gives the SHA-256 of the pseudo-random one."""
    www.mkdir(parents=True, exist_ok=True)
    for name, size in SIZES.items():
        with open(www / name, "wb") as file:
            file.truncate(size)
    content = random_bytes(seed)
    (www / RANDOM_FILE).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def make_certificate(directory: Path, servers: list[ServerLink]) -> None:
    """A self-signed certificate that names every server's addresses."""
    names = ",".join(f"IP:{address}" for server in servers for address in server.server_side)
    system.call(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
                 "-subj", "/CN=tandem-lab", "-addext", f"subjectAltName={names}",
                 "-keyout", str(directory / "lab.key"), "-out", str(directory / "lab.crt")],
                what="certificate for the servers")


def start_others(namespace: str, server: ServerLink, flows: int, state: Path) -> subprocess.Popen:
    """Downloads without end of somebody behind an access point: plain TCP, in the gateway itself, so that they use its uplink only."""
    with open(state / "others.log", "ab") as log:
        return subprocess.Popen(
            system.owned([system.PYTHON, str(_HERE / "fetch.py"), server.server_side[0], "/100G", "--flows", str(flows), "--timeout", "1e9",
                          "--interval", "10", "--again"], namespace=namespace), stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def start(namespace: str, server: ServerLink, state: Path, www: Path, mptcp: bool = False) -> list[tuple[str, subprocess.Popen]]:
    """Starts a server's programs and waits until they answer; they end with the process that called this.

    mptcp: nginx gets its listening sockets from mptcp_listen.py and speaks MPTCP with clients that ask for it.
    """
    place = state / server.name
    place.mkdir(exist_ok=True)
    config = place / "nginx.conf"
    config.write_text(_NGINX.format(master="on" if mptcp else "off", state=place, cert=state, www=www))
    with open(place / "output.log", "ab") as log:
        started = [
            (f"nginx {server.name}", [*(_LISTEN_BY_MPTCP if mptcp else []), system.tool("nginx"), "-e", str(place / "error.log"), "-p", str(place), "-c", str(config)]),
            (f"iperf3 {server.name}", [system.tool("iperf3"), "--server", "--forceflush"]),
        ]
        with system.inside(namespace):
            processes = [(name, subprocess.Popen(system.owned(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log)) for name, argv in started]
    def ready() -> bool:
        for name, process in processes:
            if process.poll() is not None:
                words = (place / "output.log").read_text().strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
                raise LabError(f"{name} did not start: {words[0]}")
        return {80, 443, 5201} <= sockets.listening(namespace)

    if not system.wait_until(ready, 15.0, pause=0.02):
        raise LabError(f"{namespace}: nginx and iperf3 did not listen within 15 s; see {place}")
    return processes
