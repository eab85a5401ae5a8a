"""The lab in virtual time: one user-mode Linux kernel holds the whole lab, and its clock moves only when everything in it waits."""

from __future__ import annotations

import os


def inside() -> str:
    """The kernel that this process runs on when that is one in virtual time; empty elsewhere."""
    return os.environ.get("TANDEM_VIRTUAL", "")
