"""The Debian package of this build, and a system to install it on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Sequence

import pytest
import root as roots
import vmrun
from conftest import GUEST, ROOT, virtual


def packed(directory: Path, *options: str) -> Path:
    """Makes the package in `directory`; `options` are further ones of cpack."""
    build = Path(os.environ.get("TANDEM_BUILD_DIR") or ROOT / "build")
    command = ["cpack", "-G", "DEB", "--config", str(build / "CPackConfig.cmake"), "-D", "CPACK_COMPONENTS_ALL=tandem", "-B", str(directory), *options]
    done = subprocess.run(command, cwd=build, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(directory.glob("*.deb"))


def system_with_systemd() -> Path:
    """The root for a machine that systemd starts. Skips the test where there is none, or no package can be made."""
    if virtual.inside():
        pytest.skip("systemd needs a machine of its own")
    if lacks := [tool for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps") if not shutil.which(tool)]:
        pytest.skip(f"missing: {', '.join(lacks)}")
    try:
        return roots.find(vmrun.cache_directory())
    except roots.NoRoot as reason:
        pytest.skip(f"no system for the virtual machine: {reason}")


def facts_of(script: str, packages: Sequence[Path], timeout: float) -> dict[str, str]:
    """Runs a script of guest/ with the packages as arguments, on the system above, and returns the facts it prints: "fact NAME VALUE"."""
    result = vmrun.run([f"/host{path}" for path in (GUEST / script, *packages)], timeout=timeout, root=system_with_systemd())
    print(f"exit code {result.exit_code} after {result.seconds:.1f} s, {result.boot_seconds:.1f} s of it until the script started")
    print(result.output)
    assert result.exit_code == 0, result.output
    return dict(re.findall(r"^fact (\w+) ?(.*)$", result.output, re.MULTILINE))
