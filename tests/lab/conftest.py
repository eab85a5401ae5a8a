"""Fixtures for tests on real kernel TCP in the lab. A test that cannot run here is skipped by name, with what is missing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAB_PY = ROOT / "tools" / "lab" / "lab.py"
sys.path[:0] = [str(LAB_PY.parent), str(ROOT / "tests" / "fixtures")]
sys.dont_write_bytecode = True

from small_disk import small_disk  # noqa: E402, F401
from tandem_lab import Lab, LabError  # noqa: E402
from tandem_lab import life, system, topology, virtual  # noqa: E402
from tandem_lab.uploads import LEAVING  # noqa: E402

# Exact rates: 25 Mb/s by Wi-Fi, 18 by cellular, as in table II of Sinky et al.
BOTH = """
[scenario]
name = "both"
mptcp = true
[wifi]
profile = "wifi-pipe"
rate_down = "25Mbit"
rate_up = "25Mbit"
delay = "2ms"
queue = 120
[cell]
rate_down = "18Mbit"
rate_up = "10Mbit"
delay = "20ms"
queue = 200
[wan]
delay = "10ms"
[[ap]]
name = "ap1"
[[server]]
name = "srv1"
congestion = "cubic"
"""


@pytest.fixture(scope="session")
def without_air() -> None:
    """The test needs namespaces and servers."""
    if lacks := system.missing_requirements(air=False):
        pytest.skip("; ".join(lacks))


@pytest.fixture(scope="session")
def with_air(without_air: None) -> None:
    """The test needs the emulator, too."""
    if lacks := system.missing_requirements(air=True):
        pytest.skip("; ".join(lacks))


def need_built(*modules: str) -> None:
    """Skips the test, and says what is missing, where the daemon or one of the modules is not built."""
    try:
        directory = system.tandem_binary("tandemd").resolve().parents[1] / "lib" / "tandem"
    except LabError as error:
        pytest.skip(str(error))
    if missing := [name for name in modules if not (directory / f"{name}.so").exists()]:
        pytest.skip(f"not built: {', '.join(missing)} (in {directory})")


@pytest.fixture(scope="session")
def limited_by_the_cpu() -> None:
    """The test sends for some time over links without a limit: what only computing limits has no limit in virtual time."""
    if virtual.inside():
        pytest.skip("sends for seconds over links without a limit, and computing takes no time in virtual time")


@pytest.fixture(scope="session")
def prefix() -> str:
    """Namespaces of this test run; a person's own lab (tdm-) stays untouched."""
    return f"t{os.getpid():x}-"


@pytest.fixture
def make_lab(prefix: str) -> Iterator[Callable[..., Lab]]:
    """Labs for one test: make_lab("plain", overrides={...}); all are gone after it."""
    labs: list[Lab] = []

    def make(scenario: str | Path = "plain", **options: Any) -> Lab:
        lab = Lab(scenario, **{"prefix": prefix, **options})
        labs.append(lab)
        lab.up()
        return lab

    yield make
    for lab in reversed(labs):
        lab.down()


@pytest.fixture
def both(make_lab: Callable[..., Lab]) -> Lab:
    """Wi-Fi and cellular for MPTCP."""
    if not Path("/proc/sys/net/mptcp/enabled").exists():
        pytest.skip("this kernel has no MPTCP (CONFIG_MPTCP)")
    return make_lab(BOTH)


@pytest.fixture
def leaving(make_lab: Callable[..., Lab]) -> Lab:
    """Its timeline waits for start_timeline()."""
    return make_lab(LEAVING)


@pytest.fixture(scope="module")
def veth_lab(without_air: None, prefix: str) -> Iterator[Lab]:
    """One lab without air for all tests of a file that leave no trace in it."""
    with Lab("plain", prefix=prefix[:-1] + "v-", air=False) as lab:
        yield lab


@pytest.fixture(scope="module")
def air_lab(with_air: None, prefix: str) -> Iterator[Lab]:
    """One lab with air (scenario plain) for all tests of a file that leave no trace in it."""
    with Lab("plain", prefix=prefix[:-1] + "a-") as lab:
        yield lab


@pytest.fixture
def command(prefix: str) -> Callable[..., subprocess.CompletedProcess]:
    """The lab's command line: command("up", "plain") as a person would type it, under the run's prefix."""

    def run(*arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess:
        first, *rest = arguments
        return subprocess.run([str(LAB_PY), first, "--prefix", prefix, *rest], capture_output=True, text=True, timeout=timeout)

    return run


@pytest.fixture
def leaves_nothing(without_air: None, prefix: str) -> Iterator[None]:
    """Compares the machine before and after the test: namespaces, links, settings, state directories, processes."""
    before = _trace(prefix)
    yield
    system.wait_until(lambda: _trace(prefix) == before, 5.0)
    after = _trace(prefix)
    life.remove(prefix)  # a failure here must not spoil the next test
    assert after == before


def _trace(prefix: str) -> dict[str, Any]:
    state = topology.machine_state()
    state["processes"] = sorted(processes_of(prefix))
    return state


def processes_of(prefix: str) -> list[str]:
    """Command lines on this machine that name the prefix."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
            except OSError:
                continue
            if prefix in words:
                found.append(words)
    return found


@contextlib.contextmanager
def mangle_of_another(lab: Lab, version: str = "ip", more: str = "") -> Iterator[None]:
    """A table that our rules need, owned by somebody else: the kernel refuses every change, until that process ends."""
    lab.client.run(["nft", "delete", "table", version, "mangle"], check=False)  # an empty one, which somebody else began
    owner = lab.client.popen(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        owner.stdin.write(f"add table {version} mangle {{ flags owner; }}\n{more}\n")
        owner.stdin.flush()
        if not system.wait_until(lambda: "flags owner" in lab.client.run(["nft", "list", "ruleset"], check=False).stdout, 3):
            pytest.skip("no table with an owner in this kernel")
        yield
    finally:
        owner.kill()
        owner.wait()
