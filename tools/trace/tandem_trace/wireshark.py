"""Puts Tandem's dissector and profile where Wireshark and tshark look for them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .errors import TraceError

SOURCE = Path(__file__).resolve().parents[1] / "wireshark"
LIVE = Path(__file__).resolve().parents[1] / "live.py"
LIVE_NAME = "tandem-live"


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


def extcap_directory() -> Path | None:
    """Where Wireshark looks for programs that capture: the user's own place if this release has one, else everybody's. None: no Wireshark."""
    if (given := os.environ.get("WIRESHARK_EXTCAP_DIR")) and os.geteuid():  # of root Wireshark takes no word for it
        return Path(given)
    for name in ("tshark", "wireshark"):
        if not (found := shutil.which(name)):
            continue
        told = subprocess.run([found, "-G", "folders"], capture_output=True, text=True, check=False, timeout=60).stdout
        places = {label.strip().lower(): place.strip() for label, _, place in (line.partition(":") for line in told.splitlines()) if "extcap" in label.lower()}
        if places:
            return Path(next((place for label, place in sorted(places.items()) if label.startswith("personal")), next(iter(places.values()))))
    return None


def install_live() -> tuple[Path | None, str]:
    """The link, or why there is none, with what to do."""
    directory = extcap_directory()
    if directory is None:
        return None, "neither tshark nor wireshark is installed; do this again when one is, for the interface \"Tandem (live)\""
    link = directory / LIVE_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if link.is_symlink() or link.exists():
            link.unlink()
        link.symlink_to(LIVE)
    except OSError as fault:
        return None, f"{link}: {fault.strerror}; this Wireshark reads such programs from there only. For the interface \"Tandem (live)\": sudo ln -s {LIVE} {link}"
    return link, ""


def remove_live() -> tuple[Path | None, str]:
    directory = extcap_directory()
    link = directory / LIVE_NAME if directory else None
    if link is None or not link.is_symlink():
        return None, ""
    try:
        link.unlink()
    except OSError as fault:
        return None, f"{link}: {fault.strerror}; sudo rm {link}"
    return link, ""


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
