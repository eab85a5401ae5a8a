"""tools/install-deps with an apt that is made up: services stay forbidden no longer than an installation, also after one that was killed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(TOOLS / "packages", tmp_path / "tools")
    script = (TOOLS / "install-deps").read_text()
    assert script.count("policy=/usr/sbin/policy-rc.d") == 1
    (tmp_path / "tools" / "install-deps").write_text(script.replace("policy=/usr/sbin/policy-rc.d", f"policy={tmp_path}/policy"))
    (tmp_path / "bin").mkdir()
    for name, text in (("id", "echo 0"), ("dpkg-query", f'[ ! -e {tmp_path}/done ] || printf "installed %s\\n" clang-14 libclang-rt-14-dev'),
                       ("apt-get", f'case "$*" in *install*) cp {tmp_path}/policy {tmp_path}/seen; [ ! -e {tmp_path}/fails ] || exit 1; touch {tmp_path}/done ;; esac')):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def install(world: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", str(world / "tools" / "install-deps"), "fuzz"], capture_output=True, text=True, timeout=30,
                          env={**os.environ, "PATH": f"{world}/bin:{os.environ['PATH']}"})


def test_services_are_forbidden_meanwhile_and_no_longer(world: Path) -> None:
    done = install(world)
    assert done.returncode == 0, done.stderr
    assert "exit 101" in (world / "seen").read_text() and not (world / "policy").exists()


def test_what_a_killed_installation_left_goes_with_the_next_one(world: Path) -> None:
    install(world)
    shutil.copy(world / "seen", world / "policy")  # as kill -9 leaves it
    (world / "done").unlink()
    assert install(world).returncode == 0 and not (world / "policy").exists()


def test_a_policy_of_the_machines_own_stays(world: Path) -> None:
    (world / "policy").write_text("#!/bin/sh\nexit 101\n")
    assert install(world).returncode == 0 and (world / "policy").read_text() == "#!/bin/sh\nexit 101\n"


def test_a_failed_installation_is_told_and_leaves_no_policy(world: Path) -> None:
    (world / "fails").touch()
    done = install(world)
    assert done.returncode == 1 and "this failed: apt-get" in done.stderr and not (world / "policy").exists()
