"""Puts Tandem's dissector and profile where Wireshark and tshark look for them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .errors import TraceError

SOURCE = Path(__file__).resolve().parents[1] / "wireshark"


def config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")


def places() -> dict[Path, Path]:
    """What goes where: the dissector for everything, columns and colours as a profile of their own."""
    profile = config_home() / "wireshark/profiles/Tandem"
    # Debian's and upstream's own place; a plugin folder without a version is read by every release.
    found = {SOURCE / "tandem.lua": Path.home() / ".local/lib/wireshark/plugins/tandem.lua"}
    found.update({SOURCE / "profile" / name: profile / name for name in ("preferences", "colorfilters")})
    return found


def install() -> list[Path]:
    written = []
    for source, target in places().items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as fault:
            raise TraceError(f"{target}: {fault.strerror}") from fault
        written.append(target)
    return written


def remove() -> list[Path]:
    removed = []
    for target in places().values():
        if target.exists():
            target.unlink()
            removed.append(target)
    profile = config_home() / "wireshark/profiles/Tandem"
    if profile.is_dir() and not any(profile.iterdir()):
        profile.rmdir()
    return removed
