"""What `tandem lab` refuses before it makes anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path[:0] = [str(TOOLS / part) for part in ("lab", "common")]

from tandem_lab import Lab, api, cli  # noqa: E402
from tandem_lab import life, supervisor, system, topology, virtual_guest, virtual_machine  # noqa: E402
from tandem_lab.errors import BadInput, LabError  # noqa: E402


@pytest.mark.parametrize("word, allowed", [
    ("--seconds=0", "above 0"), ("--seconds=-1", "above 0"), ("--seconds=nan", "above 0"), ("--seconds=inf", "above 0"), ("--seconds=x", "above 0"),
    ("--flows=0", "from 1"), ("--flows=1.5", "from 1"), ("--seed=-1", "from 0")])
def test_numbers_that_cannot_be_are_wrong_usage(monkeypatch, capsys, word: str, allowed: str) -> None:
    monkeypatch.setitem(cli._COMMANDS, "run", lambda options: pytest.fail("a lab was made"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "plain", word])
    assert ended.value.code == 2 and f"{word.partition('=')[2]}: allowed: " in (said := capsys.readouterr().err) and allowed in said


@pytest.mark.parametrize("key", ["cell.nat", "cell.source_filter"])
def test_a_switch_of_the_gateway_takes_yes_and_no_alone(monkeypatch, tmp_path: Path, key: str) -> None:
    """`tandem lab set cell.nat off` switched it on."""
    switched = []
    monkeypatch.setattr(api, "CellGateway", lambda *_: type("Gateway", (), {"apply": lambda self, **what: switched.append(what)})())
    lab = Lab()
    lab.info = {"namespaces": {"cgw": "x-cgw"}, "servers": {}}
    for value in ("off", 0, 1):
        with pytest.raises(BadInput, match=f"{key} = {value}: true or false is allowed"):
            lab.set(key, value)
    lab.set(key, False)
    assert switched == [{key.removeprefix("cell."): False}]


def test_cmd_without_a_command_is_wrong_usage(monkeypatch, capsys) -> None:
    """It ran the download in its place."""
    monkeypatch.setattr(cli, "_lab", lambda *_: pytest.fail("a lab was made"))
    monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
    assert cli.main(["run", "plain", "--cmd"]) == 2 and "no command given" in capsys.readouterr().err


def test_what_nohup_ignores_stays_ignored(capsys) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert cli.main(["list"]) == 0 and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert cli.main(["list"]) == 0 and callable(signal.getsignal(signal.SIGHUP))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_namespaces_that_no_lab_made_stay(monkeypatch, tmp_path: Path, capsys) -> None:
    """They were taken for the ruins of one: their processes were killed, they were deleted."""
    monkeypatch.setattr(system, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(system, "require", lambda _: None)
    monkeypatch.setattr(topology, "namespaces_with", lambda prefix: [f"{prefix}office"])
    monkeypatch.setattr(life, "sweep", lambda _: pytest.fail("what is somebody else's is removed"))
    monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
    for words in (["down", "--prefix", "vpn-"], ["up", "plain", "--prefix", "vpn-"]):
        assert cli.main(words) == 1
        assert "vpn-office" in (said := capsys.readouterr().err) and "--prefix" in said
    assert cli.main(["status", "--prefix", "vpn-"]) == 1 and "killed" not in capsys.readouterr().out
    with pytest.raises(LabError, match="vpn-office"):
        Lab("plain", prefix="vpn-").up()
    swept = []
    monkeypatch.setattr(life, "sweep", swept.append)
    (tmp_path / "vpn-").mkdir()
    assert cli.main(["down", "--prefix", "vpn-"]) == 0 and swept == ["vpn-"], "ruins are removed"


def test_downloads_of_others_behind_an_access_point_are_not_the_clients(monkeypatch) -> None:
    """With uplink_flows the table of `tandem lab run` told of somebody else's round trips and retransmissions."""
    rows = [("10.77.102.2", 9000, 30.0, 7), ("10.77.1.2", 2000, 12.0, 1), ("10.77.1.2", 1000, 13.0, 2)]
    lines = "".join(f"0 0 10.77.10.1:80 {peer}:{40000 + sent} cubic rtt:{rtt}/1 retrans:0/{again} bytes_sent:{sent}\n" for peer, sent, rtt, again in rows)
    lab = Lab()
    lab.info = {"namespaces": {"srv1": "x-srv1"}, "servers": {"srv1": {"ipv4": "10.77.10.1", "ipv6": "fd77:10::1"}}, "aps": ["ap1", "ap2"]}
    monkeypatch.setattr(api.Endpoint, "run", lambda *_, **__: type("Done", (), {"stdout": lines}))
    assert [(entry.rtt_ms, entry.retrans) for entry in lab.sock_stats("srv1")] == [(12.0, 1), (13.0, 2)]
    watch = cli._RttWatch(lab, "srv1")
    monkeypatch.setattr(watch._stop, "wait", lambda _, again=iter([False, True]): next(again))
    watch._run()
    assert [entry.rtt_ms for entry in watch.seen] == [12.0] and sum(entry.retrans for entry in watch.latest) == 3


def test_what_others_allow_meanwhile_stays_allowed(monkeypatch, tmp_path: Path) -> None:
    """The last lab wrote back what it had found, and took away what somebody else had allowed since."""
    allowed, available = tmp_path / "allowed", tmp_path / "available"
    allowed.write_text("reno cubic\n")
    available.write_text("reno cubic bbr vegas dctcp\n")
    monkeypatch.setattr(system, "_ALLOWED_CC", allowed)
    monkeypatch.setattr(system, "_AVAILABLE_CC", available)
    monkeypatch.setattr(system, "STATE_ROOT", tmp_path)
    system.MachineSettings().allow_congestion("one-", {"cubic", "bbr"})
    system.MachineSettings().allow_congestion("two-", {"bbr", "vegas"})
    allowed.write_text(allowed.read_text() + " dctcp")
    system.MachineSettings().release("one-", lambda prefix: prefix == "two-")
    assert set(allowed.read_text().split()) == {"reno", "cubic", "bbr", "vegas", "dctcp"}, "the other lab needs them"
    system.MachineSettings().release("two-", lambda _: False)
    assert allowed.read_text().split() == ["reno", "cubic", "dctcp"] and not (tmp_path / "machine.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the demo needs root")
def test_the_demo_needs_a_cellular_link(tmp_path: Path) -> None:
    """It ended in a KeyError after the first download."""
    for name, code in (("two-aps", 2), ("demo", 0)):
        done = subprocess.run([sys.executable, "-B", str(TOOLS / "lab" / "demo.py"), "--only-check", "--scenario", name, "--out", str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == code and ("has no cellular link" in done.stderr) == (code == 2)


def test_a_word_that_is_no_setting_is_wrong_usage_of_the_evaluation_in_the_lab() -> None:
    """It was a traceback."""
    done = subprocess.run([sys.executable, "-B", str(TOOLS / "ab" / "over_lab.py"), "--set", "nonsense", "--", "offload"], capture_output=True, text=True)
    assert done.returncode == 2 and "--set nonsense: allowed" in done.stderr


@pytest.mark.parametrize("file", ["/run/x.toml", "/var/run/x.toml", "/dev/shm/x.toml"])
def test_a_scenario_that_the_guest_does_not_see_is_refused_before_it_starts(monkeypatch, capsys, file: str) -> None:
    """The guest said that there is no such file."""
    monkeypatch.setattr(cli.scenario, "find", lambda _: Path(file).resolve())
    monkeypatch.setattr(virtual_machine, "run", lambda *_, **__: pytest.fail("a guest was started"))
    monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
    monkeypatch.delenv("TANDEM_VIRTUAL", raising=False)
    assert cli.main(["run", file, "--time", "virtual"]) == 2
    assert f"scenario {file}: a lab in virtual time has a /" in (said := capsys.readouterr().err) and "of its own and does not see this file" in said


def test_a_scenario_below_the_results_is_seen(monkeypatch) -> None:
    """It was refused like any other there."""
    asked: list[object] = []
    monkeypatch.setattr(virtual_machine, "run", lambda *_, **options: asked.append(options["directories"]) or virtual_machine.Result(0, 0.0, 0.0))
    monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
    monkeypatch.delenv("TANDEM_VIRTUAL", raising=False)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        file = Path(place, "x.toml")
        file.write_text((TOOLS / "lab/scenarios/plain.toml").read_text())
        assert cli.main(["run", str(file), "--time", "virtual", "--no-air", "--results", place]) == 0 and asked == [[Path(place)]]


def test_a_directory_that_the_guest_does_not_see_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(virtual_machine, "requirements", lambda: None)
    monkeypatch.setattr(virtual_machine.subprocess, "Popen", lambda *_, **__: pytest.fail("a guest was started"))
    with pytest.raises(BadInput, match="/proc of its own and does not see this directory"):
        virtual_machine.Machine(["true"], seed=1, cpu=0, directory=Path("/proc"))
    assert virtual_machine.hidden(Path("/tmp/run/x")) == virtual_machine.hidden(Path("/runner")) == ""


def results_of(tmp_path: Path) -> virtual_guest._Results:
    made = object.__new__(virtual_guest._Results)
    made._directory, made._outside, made._written = "/results", str(tmp_path / "outside"), str(tmp_path / "written")
    return made


def test_a_directory_made_anew_brings_nothing_of_the_old_one(monkeypatch, tmp_path: Path) -> None:
    """Old and new files were mixed outside."""
    for path in ("outside/made/old", "outside/made/both", "outside/made/below/old", "outside/merged/old", "outside/was-directory/old", "written/made/both", "written/made/below/fresh",
                 "written/merged/fresh", "written/was-directory", "outside/was-file", "written/was-file/fresh"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    monkeypatch.setattr(virtual_guest, "_made_anew", lambda path: path.endswith("/made"))  # as the overlay marks it; below it nothing is marked
    assert results_of(tmp_path).bring_out() == ""
    outside = tmp_path / "outside"
    assert sorted(str(path.relative_to(outside)) for path in outside.rglob("*") if path.is_file()) == [
        "made/below/fresh", "made/both", "merged/fresh", "merged/old", "was-directory", "was-file/fresh"]
    assert (outside / "made/both").read_text() == "written/made/both"


class Played:
    """A control socket whose events come as given, and then is gone."""

    def __init__(self, events: list[dict]):
        self._events = events

    def fileno(self) -> int:
        return os.open("/dev/null", os.O_RDONLY)

    def pending(self):
        yield from self._events
        raise LabError("the emulator closed the connection")


def watched(monkeypatch, events: list[dict], carried_out) -> list[dict]:
    noted: list[dict] = []
    made = object.__new__(supervisor.Supervisor)
    made.processes, made.control, made.state = [], Played(events), type("State", (), {"directory": Path("/state")})()
    monkeypatch.setattr(made, "_carry_out", carried_out, raising=False)
    monkeypatch.setattr(made, "_note", noted.append, raising=False)
    monkeypatch.setattr(supervisor.selectors, "DefaultSelector", lambda: type("Selector", (), {"register": lambda *_: None, "unregister": lambda *_: None, "select": lambda *_, **__: [1]})())

    def stop(_: float) -> None:
        raise supervisor._Stop

    monkeypatch.setattr(supervisor.time, "sleep", stop)
    with pytest.raises(supervisor._Stop):
        made.stay()
    return noted


def test_an_event_that_fails_is_told_and_those_behind_it_are_carried_out(monkeypatch) -> None:
    """It was taken for the loss of the control socket: later handoffs of the timeline were dropped."""
    def carried_out(event: dict) -> None:
        if event["event"] == "handoff":
            raise LabError("no such route")

    noted = watched(monkeypatch, [{"event": "handoff"}, {"event": "nat", "value": True}], carried_out)
    assert noted == [{"event": "fault", "what": "handoff was not carried out: no such route"}, {"event": "nat", "value": True},
                     {"event": "fault", "what": "the emulator closed the connection"}]


def test_a_fault_of_the_supervisor_is_told_and_the_lab_stays(monkeypatch, capsys) -> None:
    """The lab vanished, its log with it, and nobody was told why."""
    def carried_out(event: dict) -> None:
        raise KeyError("ap")

    noted = watched(monkeypatch, [{"event": "handoff"}], carried_out)
    assert noted == [{"event": "fault", "what": "the supervisor carries out nothing more: KeyError: 'ap'; see /state/supervisor.log"}]
    assert "Traceback" in capsys.readouterr().err
