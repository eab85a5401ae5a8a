"""Tunnels by both links between the client and a relay, set up as docs/relay.md tells users to."""

from __future__ import annotations

from pathlib import Path

from . import system
from .errors import LabError
from .topology import RELAY, Topology

PROGRAM = Path(__file__).resolve().parents[2] / "relay" / "relay.py"  # in the source tree and installed
SIDES = {"relay": ("tandem-w", "tandem-c"), "client": ("tandem-wifi", "tandem-cell")}  # the namespace, and its interfaces
WIFI, CELL = SIDES["client"]


class Relay:
    """wg-quick(8) on both sides, with the files that `tandem relay` writes. Goes with its namespaces."""

    def __init__(self, topology: Topology, directory: Path):
        self.topology = topology
        self.directory = directory

    def up(self) -> None:
        """Raises LabError where the kernel has no WireGuard."""
        system.call([str(PROGRAM), str(self.directory), "--host", RELAY.server_side[0]], what="files of the relay's tunnels")
        for side, interfaces in SIDES.items():
            folder = self.directory / ("laptop" if side == "client" else side)
            for interface in interfaces:
                try:
                    system.call(["wg-quick", "up", str(folder / f"{interface}.conf")], what=f"the tunnel {interface}",
                                namespace=self.topology.namespace(side))
                except LabError as error:
                    raise LabError(f"scenario.relay: {error} (it needs wireguard-tools and a kernel with WireGuard, as the lab in virtual time has)") from error
