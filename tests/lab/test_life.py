"""Up, down, and every way in which a lab can be torn out of its user's hands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import tandem_lab
from tandem_lab import Lab, LabError, sockets, system, topology
from tandem_lab.life import LabState, is_running

LAB_PY = Path(tandem_lab.__file__).resolve().parents[1] / "lab.py"
AIR = [pytest.param(False, id="veth"), pytest.param(True, id="air")]


def _need(air: bool) -> None:
    if lacks := system.missing_requirements(air):
        pytest.skip("; ".join(lacks))


def _flags(air: bool) -> list[str]:
    return [] if air else ["--no-air"]


@pytest.mark.parametrize("air", AIR)
def test_up_and_down_leave_nothing(air, leaves_nothing, command, prefix):
    _need(air)
    up = command("up", "plain", *_flags(air))
    assert up.returncode == 0, up.stderr
    assert len(topology.namespaces_with(prefix)) == 5
    assert json.loads(command("status", "--json").stdout)["up"]
    down = command("down")
    assert down.returncode == 0 and "removed" in down.stdout, down.stderr
    assert "nothing to remove" in command("down").stdout


def test_allowed_congestion_control_is_given_back(without_air, make_lab):
    setting = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    if (system.STATE_ROOT / "machine.json").exists():
        pytest.skip("another lab is up: it needs the setting")
    before = setting.read_text()
    without_cubic = " ".join(name for name in before.split() if name != "cubic")
    setting.write_text(without_cubic)
    try:
        lab = make_lab(air=False)
        assert "cubic" in setting.read_text().split()
        lab.down()
        assert setting.read_text().strip() == without_cubic
    finally:
        setting.write_text(before)


def test_no_connection_outlives_the_lab(leaves_nothing, make_lab):
    """A server whose client is gone keeps what it has sent in memory, also without its namespace: after some labs no send buffer of the
    machine grew any more, and the downloads after that were slow."""
    before = sockets.totals()["orphan"]
    lab = make_lab("plain", overrides={"wan.delay": "400ms"})  # what tells the server that the client is gone comes too late
    assert lab.start_download(seconds=3).wait().bytes > 10_000
    lab.down()
    assert system.wait_until(lambda: sockets.totals()["orphan"] <= before, 10), sockets.totals()  # those of other labs go soon


@pytest.mark.parametrize("air", AIR)
def test_after_kill_of_the_supervisor_up_works_again(air, leaves_nothing, command, prefix):
    _need(air)
    assert command("up", "plain", *_flags(air)).returncode == 0
    supervisor = LabState(prefix).supervisor()
    os.kill(supervisor.pid, signal.SIGKILL)
    assert system.wait_until(lambda: not supervisor.alive(), 5)
    # The kernel ends what the supervisor owned; the namespaces stay until somebody comes back.
    assert system.wait_until(lambda: not LabState(prefix).processes(), 5)
    assert topology.namespaces_with(prefix)
    assert command("status").returncode == 1
    again = command("up", "plain", *_flags(air))
    assert again.returncode == 0, again.stderr
    assert command("exec", "ping", "-c", "1", "-W", "2", "10.77.10.1").returncode == 0
    assert command("down").returncode == 0


def test_after_kill_of_the_supervisor_down_cleans(leaves_nothing, command, prefix):
    assert command("up", "plain", "--no-air").returncode == 0
    os.kill(LabState(prefix).supervisor().pid, signal.SIGKILL)
    assert command("down").returncode == 0


def test_processes_inside_end_with_the_lab(leaves_nothing, command, prefix):
    assert command("up", "plain", "--no-air").returncode == 0
    sleeper = subprocess.Popen([str(LAB_PY), "exec", "--prefix", prefix, "sleep", "1000"])
    namespace = prefix + "client"
    assert system.wait_until(lambda: topology.processes_in([namespace]), 5)
    assert command("down").returncode == 0
    assert sleeper.wait(5) != 0


def test_lab_of_a_killed_program_goes_away_by_itself(leaves_nothing, prefix):
    program = (f"import sys, time; sys.path.insert(0, {str(LAB_PY.parent)!r})\nfrom tandem_lab import Lab\n"
               f"lab = Lab('plain', prefix={prefix!r}, air=False); lab.up(); print('up', flush=True); time.sleep(1000)")
    process = subprocess.Popen(["/usr/bin/python3", "-B", "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    assert is_running(prefix)
    process.kill()
    process.wait()
    assert system.wait_until(lambda: not LabState(prefix).exists(), 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_cleans_up(number, leaves_nothing, prefix):
    process = subprocess.Popen([str(LAB_PY), "run", "--prefix", prefix, "plain", "--no-air", "--seconds", "60"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert system.wait_until(lambda: _busy(prefix + "client") or process.poll() is not None, 20)
    time.sleep(0.5)
    os.killpg(process.pid, number)
    process.communicate(timeout=20)
    assert process.returncode not in (0, 1)
    assert not LabState(prefix).exists()


def _busy(namespace: str) -> bool:
    """Whether a program runs in a namespace that may not exist yet."""
    try:
        return bool(topology.processes_in([namespace]))
    except LabError:
        return False


def test_two_labs_side_by_side(leaves_nothing, make_lab, prefix):
    one = make_lab(air=False)
    two = make_lab(air=False, prefix=f"{prefix[:-1]}b-", congestion="reno")
    assert one.download("1M", sha256=True).sha256 == two.download("1M", sha256=True).sha256
    one.down()
    # The first one's end takes nothing from the second.
    assert two.download("random", sha256=True).sha256 == two.random_file["sha256"]
    two.down()


def test_second_lab_of_one_prefix_is_refused(make_lab, prefix):
    lab = make_lab(air=False)
    with pytest.raises(LabError, match="already up"):
        Lab("plain", prefix=prefix, air=False).up()
    assert lab.download("100k").bytes == 100 << 10


def test_exit_code_of_exec_is_the_commands(make_lab, command):
    make_lab(air=False)
    assert command("exec", "sh", "-c", "exit 7").returncode == 7
    assert command("exec", "-n", "srv1", "true").returncode == 0
    refused = command("exec", "-n", "srv9", "true")
    assert refused.returncode == 2 and "allowed: client, ap1, cgw, wan, srv1" in refused.stderr


def test_without_root_it_says_so(without_air):
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(LAB_PY), "up", "plain"],
                          capture_output=True, text=True)
    if "Permission denied" in done.stderr:
        pytest.skip(f"another user cannot read {LAB_PY}")
    assert done.returncode == 1
    assert "needs root" in done.stderr and "sudo" in done.stderr


BAD = {
    "not TOML": ('[scenario]\nname = "x\n', 2),
    "congestion": ('[scenario]\nname = "x"\nsummary = "x"\n\n[[server]]\nname = "srv1"\ncongestion = "newreno"\n', None),
    "server name": ('[scenario]\nname = "x"\nsummary = "x"\n\n[[server]]\nname = "Web_1"\n', None),
}


@pytest.mark.parametrize("air", AIR)
@pytest.mark.parametrize("kind", BAD)
def test_bad_scenario_names_file_and_line(kind, air, leaves_nothing, tmp_path, command):
    _need(air)
    text, line = BAD[kind]
    file = tmp_path / "bad.toml"
    file.write_text(text)
    done = command("up", str(file), *_flags(air))
    assert done.returncode == 2
    place = done.stderr.partition(f"{file}:")[2].partition(":")[0]
    assert place.isdigit(), done.stderr
    if line:
        assert int(place) == line
    else:
        assert 5 <= int(place) <= 7  # the table or its key, whichever the message points at


def test_unknown_scenario_lists_the_known(without_air, command):
    done = command("up", "nonesuch", "--no-air")
    assert done.returncode == 2 and "plain" in done.stderr
