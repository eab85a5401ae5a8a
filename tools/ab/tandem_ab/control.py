"""The daemon's control socket, which the dashboard asks, too."""

from tandem_common.control import Daemon

__all__ = ["Daemon"]
