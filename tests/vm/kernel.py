#!/usr/bin/python3
"""Debian's own kernel for the virtual machine: downloaded as a package, unpacked into a cache, never installed.

    kernel.py CACHE        unpack it below CACHE unless one is there
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

METAPACKAGE = "linux-image-amd64"
# What the guest may load; all drivers together are 400 MB.
_WANTED = ("boot/vmlinuz-*", "boot/config-*", "lib/modules/*/modules.*", "lib/modules/*/kernel/net/*", "lib/modules/*/kernel/lib/*",
           "lib/modules/*/kernel/crypto/*", "lib/modules/*/kernel/arch/*", "lib/modules/*/kernel/fs/9p/*",
           "lib/modules/*/kernel/fs/netfs/*", "lib/modules/*/kernel/fs/fscache/*", "lib/modules/*/kernel/fs/overlayfs/*",
           "lib/modules/*/kernel/drivers/virtio/*", "lib/modules/*/kernel/drivers/net/*.ko", "lib/modules/*/kernel/drivers/char/*.ko",
           "lib/modules/*/kernel/drivers/usb/common/*", "lib/modules/*/kernel/drivers/usb/core/*", "lib/modules/*/kernel/drivers/usb/host/xhci-*")
_UNWANTED = ("*/kernel/drivers/net/ethernet/*", "*/kernel/drivers/net/wireless/[!m]*", "*/kernel/drivers/net/wireless/m[!a]*",
             "*/kernel/drivers/net/usb/[!cru]*", "*/kernel/drivers/net/usb/c[!d]*", "*/kernel/drivers/net/usb/r[!n]*", "*/kernel/net/bluetooth/*")
_SELECTION = "selection"  # what was chosen when the package was unpacked


def _selection() -> str:
    return "\n".join([*_WANTED, "but not", *_UNWANTED])


class NoKernel(Exception):
    """Says what is missing and what to do."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel package."""

    release: str  # 6.1.0-56-amd64
    image: Path
    modules: Path  # lib/modules/RELEASE, with modules.dep

    def with_dependencies(self, names: list[str]) -> list[Path]:
        """Files of these modules and of all they need, in the order of loading."""
        needs: dict[str, list[str]] = {}
        paths: dict[str, str] = {}
        for line in (self.modules / "modules.dep").read_text().splitlines():
            path, _, rest = line.partition(":")
            needs[path] = rest.split()
            paths[Path(path).name.removesuffix(".ko").replace("-", "_")] = path
        order: list[str] = []

        def add(path: str) -> None:
            for need in needs[path]:
                add(need)
            if path not in order:
                order.append(path)

        for name in names:
            if name not in paths:
                raise NoKernel(f"kernel {self.release} below {self.modules} has no module {name}")
            add(paths[name])
        return [self.modules / path for path in order]


def find(cache: Path) -> Kernel:
    """The kernel in the cache. Raises NoKernel when there is none, or one with other modules than are wanted now."""
    for image in sorted(cache.glob("kernel/boot/vmlinuz-*"), reverse=True):
        release = image.name.removeprefix("vmlinuz-")
        modules = cache / "kernel" / "lib" / "modules" / release
        if (modules / "modules.dep").exists():
            selected = cache / "kernel" / _SELECTION
            if not selected.exists() or selected.read_text() != _selection():
                raise NoKernel("the kernel unpacked for the virtual machine is without modules that tests need now; fetch it anew with: tools/install-deps vm")
            return Kernel(release, image, modules)
    raise NoKernel("no Debian kernel is unpacked for the virtual machine; fetch it with: tools/install-deps vm")


def _apt(*words: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run([words[0], *words[1:]], cwd=cwd, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKernel(f"{words[0]}: {error}") from error
    if done.returncode != 0:
        raise NoKernel(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _package() -> str:
    """The real package that the metapackage depends on."""
    shown = _apt("apt-cache", "--no-all-versions", "show", METAPACKAGE)
    if not (found := re.search(r"^Depends:.*?\b(linux-image-[0-9][^ ,]*)", shown, re.MULTILINE)):
        raise NoKernel(f"apt knows no kernel package behind {METAPACKAGE}; is `apt-get update` missing?")
    return found[1]


def fetch(cache: Path) -> Kernel:
    """Downloads and unpacks the kernel unless it is in the cache. Raises NoKernel."""
    try:
        return find(cache)
    except NoKernel:
        pass
    if missing := [tool for tool in ("apt-get", "apt-cache", "dpkg-deb", "depmod") if not shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin")]:
        raise NoKernel(f"missing: {', '.join(missing)} (a Debian system is needed to fetch its kernel)")
    if _apt("dpkg", "--print-architecture").strip() != "amd64":
        raise NoKernel("the virtual machine is set up for amd64 only")
    package = _package()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="unpack-") as scratch:
        _download(package, Path(scratch))
        tree = Path(scratch) / "kernel"
        _unpack(next(Path(scratch).glob("*.deb")), tree)
        for modules in tree.glob("lib/modules/*"):
            _apt("depmod", "-b", str(tree), modules.name)
        (tree / _SELECTION).write_text(_selection())
        shutil.rmtree(cache / "kernel", ignore_errors=True)
        tree.rename(cache / "kernel")  # whole or not at all
    return find(cache)


def _download(package: str, directory: Path) -> None:
    download = ("apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download", package)
    try:
        _apt(*download, cwd=directory)
    except NoKernel:
        _apt("apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "update")  # the mirror may have replaced this version since
        _apt(*download, cwd=directory)


def _unpack(package: Path, tree: Path) -> None:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacked:
        assert unpacked.stdout
        with tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isfile() and any(fnmatch(name, wanted) for wanted in _WANTED) and not any(fnmatch(name, not_) for not_ in _UNWANTED):
                    member.name = name
                    archive.extract(member, tree, set_attrs=False)
        unpacked.stdout.read()
    if unpacked.returncode != 0:
        raise NoKernel(f"dpkg-deb could not unpack {package.name}")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    cache = Path(arguments[0])
    try:
        find(cache)
    except NoKernel:
        try:
            print(f"kernel for the virtual machine: {fetch(cache).release}")
        except NoKernel as error:
            print(f"no kernel for the virtual machine, its tests will be skipped: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
