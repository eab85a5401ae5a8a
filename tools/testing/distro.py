#!/usr/bin/python3
"""Builds and tests this commit on another release of Debian or Ubuntu, in a root of its own: tools/distro runs this."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))

from tandem_common.alone import locked  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ("build", "run", "test")  # of tools/packages
SOURCE = "tandem"  # the checkout, below the root


@dataclass(frozen=True)
class Release:
    name: str
    components: str
    keyring: str
    keyring_from: str  # how Debian 12 comes by it


RELEASES = {
    "trixie": Release("Debian 13", "main", "debian-archive-keyring.gpg", "run: apt-get install debian-archive-keyring"),
    "noble": Release("Ubuntu 24.04", "main,universe", "ubuntu-archive-keyring.gpg",
                     "install ubuntu-keyring; Debian 12 has no package of that name, that of Debian 13 fits"),
}


class NoDistro(Exception):
    """Says what is missing and what to do."""


def wanted(release: str) -> list[str]:
    """The packages, sorted."""
    printed = subprocess.run([ROOT / "tools" / "install-deps", "--print", "--release", release, *GROUPS], capture_output=True, text=True, check=True)
    return sorted(printed.stdout.split())


def bootstrap(release: str, mirror: str | None, packages: Sequence[str], tree: Path) -> list[str]:
    """The command that makes the root."""
    facts = RELEASES[release]
    command = ["mmdebstrap", "--mode=root", "--variant=important", f"--components={facts.components}", f"--keyring=/usr/share/keyrings/{facts.keyring}",
               '--aptopt=Acquire::Retries "3"', '--aptopt=APT::Install-Recommends "0"', f"--include={','.join(packages)}", release, str(tree)]
    return [*command, mirror] if mirror else command


def make(release: str, mirror: str | None, place: Path) -> Path:
    """The root of a release; made unless there is one of these packages. Raises NoDistro."""
    tree, list_file = place / "root", place / "packages"
    packages = wanted(release)
    if list_file.exists() and list_file.read_text().split() == packages:
        return tree
    for program in ("mmdebstrap", "unshare"):
        if not shutil.which(program):
            raise NoDistro(f"{program} is not installed; run: apt-get install mmdebstrap util-linux")
    facts = RELEASES[release]
    if not Path("/usr/share/keyrings", facts.keyring).exists():
        raise NoDistro(f"/usr/share/keyrings/{facts.keyring} is missing, by which packages of {facts.name} are known to be genuine; {facts.keyring_from}")
    print(f"making a root of {facts.name} with {len(packages)} packages and what they need, which takes a few minutes", flush=True)
    place.mkdir(parents=True, exist_ok=True)
    for ruin in place.glob("root-*"):  # of a run that was killed; whoever makes one now holds the lock
        if str(ruin) not in Path("/proc/self/mounts").read_text():
            shutil.rmtree(ruin, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=place, prefix="root-") as scratch:
        Path(scratch).chmod(0o755)
        made = Path(scratch) / "root"
        done = subprocess.run(bootstrap(release, mirror, packages, made), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise NoDistro(f"mmdebstrap could not make a root of {facts.name}:\n{done.stderr[-3000:].strip()}")
        list_file.unlink(missing_ok=True)
        shutil.rmtree(tree, ignore_errors=True)
        made.rename(tree)
    list_file.write_text("\n".join(packages) + "\n")  # last: it says that the root is whole
    return tree


@contextmanager
def alone(release: str, place: Path) -> Iterator[None]:
    """One run at a time in a root: two would build in the same folders. Raises NoDistro."""
    place.mkdir(parents=True, exist_ok=True)
    with locked(place / "lock", NoDistro(f"another tools/distro {release} is at work in {place}; wait for its end, or stop it")):
        yield


def check_out(tree: Path) -> str:
    """This checkout's commit in the root, beside what was built there before. Says which. Raises NoDistro."""
    source = tree / SOURCE

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-c", "safe.directory=*", *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise NoDistro(f"git {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()

    if git("-C", str(ROOT), "status", "--porcelain"):
        print("what is not committed here is not built there", file=sys.stderr)
    commit = git("-C", str(ROOT), "rev-parse", "HEAD")
    if not (source / ".git").exists():
        shutil.rmtree(source, ignore_errors=True)
        git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(source))
    git("-C", str(source), "fetch", "--quiet", str(ROOT), commit)
    git("-C", str(source), "checkout", "--quiet", "--force", "--detach", commit)
    return commit


# In namespaces of its own, so that nothing of it outlives the run or is seen by this machine: mounts, processes, network.
INSIDE = """set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
ip link set lo up
root=$1
shift
exec chroot "$root" /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c 'cd /""" + SOURCE + """ && exec "$@"' sh "$@"
"""


def inside(tree: Path, command: Sequence[str]) -> list[str]:
    """The command that runs another one in the root. It ends with this program, and with it all that it has started there."""
    return ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--uts", "--ipc", "sh", "-c", INSIDE, "sh", str(tree), *command]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/distro", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Builds and tests the commit that is checked out on another release, in a root below build/distro (4 GB).",
                                     epilog="RELEASE: " + ", ".join(f"{word} ({facts.name})" for word, facts in RELEASES.items()) + ".\n"
                                            "WHAT: as for tools/test, default fast; or, behind --, a command to run in the checkout there.\n"
                                            "The kernel is this machine's. Needs root. Exit codes: those of tools/test or of the command, 1 no root, 2 wrong usage.")
    parser.add_argument("--mirror", metavar="URL", help="where packages come from (default: where mmdebstrap looks)")
    parser.add_argument("release", choices=[*RELEASES], metavar="RELEASE")
    parser.add_argument("what", nargs="*", metavar="WHAT")
    words = list(arguments)
    command = words[words.index("--") + 1:] if "--" in words else []
    options = parser.parse_args(words[:words.index("--")] if "--" in words else words)
    if command and options.what:
        parser.error("WHAT and a command exclude each other")
    if os.geteuid() != 0:
        print("tools/distro: root is needed to make and enter a root; run it with sudo", file=sys.stderr)
        return 1
    place = ROOT / "build" / "distro" / options.release
    try:
        with alone(options.release, place):
            tree = make(options.release, options.mirror, place)
            commit = check_out(tree)
            print(f"{RELEASES[options.release].name}, commit {commit[:12]}", flush=True)
            return subprocess.run(inside(tree, command or ["tools/test", *(options.what or ["fast"]), "--no-install"])).returncode
    except (NoDistro, OSError, subprocess.SubprocessError) as error:
        print(f"tools/distro: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
