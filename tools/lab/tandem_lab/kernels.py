"""Which kernel the lab in virtual time runs on, and where the built ones lie.

A built kernel is a directory of the user's cache, named by a checksum over the version of Debian's source, the configuration
and the patches beside this file. It is never inside the source tree and never installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import LabError

_HERE = Path(__file__).resolve().parent
CONFIG = _HERE / "kernel" / "config"
PATCHES = tuple(sorted((_HERE / "kernel" / "patches").glob("*.patch")))
SOURCE_PACKAGE = "linux-source-6.1"
SOURCE = Path("/usr/src") / f"{SOURCE_PACKAGE}.tar.xz"
HOW_TO_BUILD = f"build one: {_HERE.parent / 'kernel'} build"


class NoKernel(LabError):
    """There is no kernel that fits; says what to do."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that was built."""

    checksum: str  # over everything it was made from
    recipe: str  # checksum of configuration and patches alone
    source: str  # version of Debian's package
    release: str  # as uname says it
    directory: Path

    @property
    def image(self) -> Path:
        return self.directory / "linux"

    @property
    def words(self) -> str:
        """As a result's header names it."""
        return f"user-mode Linux {self.release} ({SOURCE_PACKAGE} {self.source}), {self.checksum}"


def cache() -> Path:
    """Where kernels are kept: $XDG_CACHE_HOME/tandem/lab-kernel."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "tandem" / "lab-kernel"


def recipe() -> str:
    """Checksum of the configuration and the patches."""
    digest = hashlib.sha256()
    for path in (CONFIG, *PATCHES):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def checksum(source: str, of_recipe: str) -> str:
    return hashlib.sha256(f"{source} {of_recipe}".encode()).hexdigest()[:16]


def source_version() -> str:
    """The version of the installed source package; empty without it."""
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", SOURCE_PACKAGE], capture_output=True, text=True)
    except OSError:
        return ""
    found = re.fullmatch(r"installed (\S+)", done.stdout.strip())
    return found[1] if done.returncode == 0 and found and SOURCE.exists() else ""


def _caches() -> list[Path]:
    """Where to look: sudo makes root's cache ours, while the kernel was built without it."""
    found = [cache()]
    if os.geteuid() == 0 and (person := os.environ.get("SUDO_USER")):
        found.append(Path(os.path.expanduser(f"~{person}")) / ".cache" / "tandem" / "lab-kernel")
    return found


def built() -> list[Kernel]:
    """Every kernel in the cache, the newest first."""
    found: list[tuple[float, Kernel]] = []
    for file in (file for place in dict.fromkeys(_caches()) for file in place.glob("*/kernel.json")):
        try:
            known = json.loads(file.read_text())
            kernel = Kernel(directory=file.parent, **{key: known[key] for key in ("checksum", "recipe", "source", "release")})
            if os.access(kernel.image, os.X_OK):
                found.append((file.stat().st_mtime, kernel))
        except (OSError, ValueError, KeyError):
            continue  # half removed, or of another version of this file
    return [kernel for _, kernel in sorted(found, key=lambda entry: -entry[0])]


def find() -> Kernel:
    """The newest kernel of the present configuration. Raises NoKernel."""
    there = built()
    now = recipe()
    for kernel in there:
        if kernel.recipe == now:
            return kernel
    if there:
        raise NoKernel(f"the kernel for virtual time in {cache()} is of another configuration ({there[0].recipe}, needed {now}); {HOW_TO_BUILD}")
    raise NoKernel(f"no kernel for virtual time is built in {cache()}; {HOW_TO_BUILD}")


def keep(image: Path, source: str, release: str) -> Kernel:
    """Puts a kernel that was just built into the cache, whole or not at all."""
    of_recipe = recipe()
    name = checksum(source, of_recipe)
    kernel = Kernel(name, of_recipe, source, release, cache() / name)
    fresh = image.parent / "kept"
    fresh.mkdir()
    shutil.copy2(image, fresh / "linux")
    fields = asdict(kernel)
    del fields["directory"]
    (fresh / "kernel.json").write_text(json.dumps(fields, indent=2) + "\n")
    shutil.rmtree(kernel.directory, ignore_errors=True)
    fresh.rename(kernel.directory)
    return kernel


def remove() -> list[Path]:
    """Removes every built kernel and what broken-off builds left; gives what was removed."""
    if not cache().is_dir():
        return []
    gone = [entry for entry in sorted(cache().iterdir()) if entry.is_dir()]
    for entry in gone:
        shutil.rmtree(entry)
    try:
        cache().rmdir()
    except OSError:
        pass  # something that no build put there
    return gone
