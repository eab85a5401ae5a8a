"""Settings that are saved: over restarts and reloads of the real daemon, which has a network namespace of its own with nothing in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from tandem_lab import system

FILE = "[modules.offload]\nwindow_mss = 30\n[modules.freeze]\nenabled = false\n"
TABLE, KNOB = "[modules.offload]", "window_mss"  # with what lines of the whole file begin: that of offload and that of its knob


class Daemon:
    def __init__(self, directory: Path):
        self.directory, self.process = directory, None
        self.saved, self.log, self.socket = directory / "lib/saved/settings", directory / "log", directory / "run/control.sock"
        self.config(FILE)

    def config(self, modules: str) -> None:
        (self.directory / "tandem.toml").write_text(
            f'[links]\ncell = "none"\n[daemon]\nsocket = "{self.socket}"\nsaved_directory = "{self.saved.parent}"\n[evidence]\nshare = 0\npaths = false\n'
            f'[budget]\ncell_day = ""\ncell_month = ""\n{modules}')

    def start(self, *words: str) -> None:
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["unshare", "--net", str(system.tandem_binary("tandemd")), "-c", str(self.directory / "tandem.toml"), *words],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        assert system.wait_until(lambda: self.says("ready, control socket"), 20), self.log.read_text()

    def says(self, words: str) -> bool:
        return words in self.log.read_text()

    def reload(self) -> None:
        before = self.log.read_text().count("taken over")
        self.process.send_signal(signal.SIGHUP)
        assert system.wait_until(lambda: self.log.read_text().count("taken over") > before, 10), self.log.read_text()

    def end(self, how: int = signal.SIGTERM) -> None:
        if self.process:
            self.process.send_signal(how)
            self.process.wait(20)
            self.process = None
            # Of one that was killed the keeper holds the lock until it has cleared up.
            assert system.wait_until(lambda: subprocess.run(["flock", "--nonblock", str(self.socket.parent / "tandemd.lock"), "true"]).returncode == 0, 20)

    def restart(self, *words: str, how: int = signal.SIGTERM) -> None:
        self.end(how)
        self.start(*words)

    def run(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(system.tandem_binary("tandem")), "--socket", str(self.socket), *words], capture_output=True, text=True, timeout=30)

    def tandem(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def modules(self) -> dict[str, bool]:
        return {one["name"]: one["enabled"] for one in json.loads(self.tandem("module", "--json"))}

    def on(self) -> set[str]:
        return {name for name, enabled in self.modules().items() if enabled}

    def knob(self, module: str, name: str) -> tuple[str, str]:
        """Its value, and who says so."""
        told = json.loads(self.tandem("module", module, "--json"))
        return next((knob["value"], knob["from"]) for knob in told["knobs"] if knob["name"] == name)

    def place(self, beginning: str) -> str:
        file = self.directory / "tandem.toml"
        number = next(number for number, line in enumerate(file.read_text().splitlines(), 1) if line.startswith(beginning))
        return f"{file}:{number}"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    made = Daemon(tmp_path)
    made.start()
    yield made
    made.end(signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_is_saved_is_there_after_a_restart_and_what_is_not_is_not(daemon: Daemon, how: int) -> None:
    assert daemon.on() == {"offload"} and daemon.knob("offload", "window_mss") == ("30", daemon.place(KNOB))
    assert daemon.tandem("saved") == "nothing is saved\n"
    assert daemon.tandem("enable", "freeze") == "freeze is on, saved\n"
    assert daemon.tandem("module", "mirror", "on", "--save") == "mirror is on, saved\n"
    assert daemon.tandem("disable", "offload") == "offload is off, saved\n"
    assert daemon.tandem("set", "offload.window_mss", "40", "--save") == "offload.window_mss = 40, saved\n"
    daemon.tandem("module", "ecn", "on")
    daemon.tandem("set", "offload.probe_copies", "3")
    assert daemon.on() == {"freeze", "mirror", "ecn"}
    daemon.restart(how=how)
    assert daemon.on() == {"freeze", "mirror"}
    assert daemon.knob("offload", "window_mss") == ("40", "saved") and daemon.knob("offload", "probe_copies") == ("6", "built-in")
    told = json.loads(daemon.tandem("saved", "--json"))
    assert {one["name"]: one["value"] for one in told["saved"]} == {"freeze": "on", "mirror": "on", "offload": "off", "offload.window_mss": "40"} and told["run"] == []


def test_a_reload_keeps_what_is_saved_and_what_was_set_for_this_run(daemon: Daemon) -> None:
    daemon.tandem("enable", "freeze")
    daemon.tandem("set", "offload.window_mss", "40", "--save")
    daemon.tandem("module", "ecn", "on")
    daemon.tandem("set", "offload.probe_copies", "3")
    daemon.reload()
    assert daemon.on() == {"offload", "freeze", "ecn"}
    assert daemon.knob("offload", "window_mss") == ("40", "saved") and daemon.knob("offload", "probe_copies") == ("3", "this run")
    # What nobody has saved or set is the file's, also when it says nothing any more.
    assert daemon.tandem("saved", "--forget", "offload.window_mss") == f"offload.window_mss is forgotten, in force now: 30 ({daemon.place(KNOB)})\n"
    daemon.config("[modules.mirror]\n")
    daemon.reload()
    assert daemon.on() == {"mirror", "freeze", "ecn"} and daemon.knob("offload", "window_mss") == ("20", "built-in")


def test_a_file_that_is_edited_later_does_not_count_and_the_log_says_so(daemon: Daemon) -> None:
    daemon.tandem("set", "offload.window_mss", "40", "--save")
    daemon.config("[modules.offload]\nwindow_mss = 35\n")
    daemon.reload()
    told = f'offload.window_mss = "40", which is saved, is in force, not the "35" of {daemon.place(KNOB)}; `tandem saved --forget offload.window_mss` changes that'
    assert daemon.says(told) and daemon.knob("offload", "window_mss") == ("40", "saved")
    daemon.restart()
    assert daemon.says(told) and f"35 ({daemon.place(KNOB)})" in daemon.tandem("saved")
    daemon.restart("--set", "modules.offload.window_mss=50")
    assert daemon.knob("offload", "window_mss") == ("50", "command line") and "no: 50 (command line)" in daemon.tandem("saved")
    assert daemon.tandem("saved", "--forget", "all") == "offload.window_mss is forgotten, in force now: 50 (command line)\n"
    daemon.restart()
    assert daemon.knob("offload", "window_mss") == ("35", daemon.place(KNOB)) and daemon.tandem("saved", "--forget", "all") == "nothing was saved\n"


def test_forgetting_takes_a_switch_back(daemon: Daemon) -> None:
    daemon.tandem("disable", "offload")
    assert daemon.tandem("saved", "--forget", "offload") == f"offload is forgotten, in force now: on ({daemon.place(TABLE)})\n"
    assert daemon.on() == {"offload"} and daemon.run("saved", "--forget", "offload").returncode == 2


def test_a_torn_file_is_put_aside_and_the_daemon_starts(daemon: Daemon) -> None:
    daemon.tandem("enable", "freeze")
    daemon.end()
    torn = daemon.saved.read_bytes()[:30]
    daemon.saved.write_bytes(torn)
    daemon.start()
    assert daemon.says("is torn, or no file of saved settings; put aside as settings.aside1, Tandem runs without saved settings") and daemon.on() == {"offload"}
    assert "put aside" in daemon.tandem("saved") and (daemon.saved.parent / "settings.aside1").read_bytes() == torn
    daemon.tandem("enable", "mirror")
    daemon.restart()
    assert daemon.on() == {"offload", "mirror"}


def test_what_the_modules_do_not_take_any_more_is_told_and_ignored(daemon: Daemon) -> None:
    daemon.tandem("enable", "freeze")
    daemon.end()
    saved = json.loads(daemon.saved.read_text())
    saved["settings"] |= {name: {"value": value, "at_s": 1_700_000_000} for name, value in {"rocket": "on", "offload.colour": "red", "offload.window_mss": "-3"}.items()}
    daemon.saved.write_text(json.dumps(saved))
    daemon.start()
    assert daemon.on() == {"offload", "freeze"} and daemon.knob("offload", "window_mss") == ("30", daemon.place(KNOB))
    for name in ("rocket", "offload.colour", "offload.window_mss"):
        assert daemon.says(f"; `tandem saved --forget {name}` forgets it")
    shown = daemon.tandem("saved")
    assert "no such module is loaded" in shown and "no: " in shown
    daemon.tandem("saved", "--forget", "rocket")
    assert "rocket" not in daemon.saved.read_text() and "offload.colour" in daemon.saved.read_text()
    daemon.reload()
    assert daemon.on() == {"offload", "freeze"}


def test_what_cannot_be_saved_holds_for_this_run_and_is_said(daemon: Daemon) -> None:
    (daemon.saved.parent / "settings.part").mkdir()  # as good as a full disk
    done = daemon.run("enable", "freeze")
    assert done.returncode == 1 and "freeze = on holds until the daemon ends, and is not saved: " in done.stderr
    assert daemon.on() == {"offload", "freeze"}
    daemon.restart()
    assert daemon.on() == {"offload"}


def test_what_is_on_by_default_may_be_saved_as_off(daemon: Daemon) -> None:
    daemon.config("")
    words = [word for name in ("offload", "freeze") for word in ("--default-module", name)]
    daemon.restart(*words)
    assert daemon.on() == {"offload", "freeze"}
    daemon.tandem("disable", "freeze")
    daemon.restart(*words)
    assert daemon.on() == {"offload"}
    daemon.restart(*words, "--module", "freeze")
    assert daemon.on() == {"offload", "freeze"}, "the command line is above it"


MPTCP = FILE + "[mptcp]\nsetup = true\n"


def kept(daemon: Daemon) -> tuple[int, int]:
    """At how many access points the card is kept, and what is saved of it. There is no card here: it is the setting that counts."""
    told = json.loads(daemon.tandem("aps", "--json"))
    return told["keep"], told["saved"]


def test_at_how_many_access_points_the_card_is_kept_is_saved_on_request(daemon: Daemon) -> None:
    daemon.config(MPTCP)
    daemon.restart()
    assert "until the daemon ends" in daemon.tandem("aps", "keep", "3") and kept(daemon) == (3, 0)
    told = json.loads(daemon.tandem("saved", "--json"))
    assert told["saved"] == [] and [(one["name"], one["in_force"]["value"]) for one in told["run"]] == [("aps.keep", "3")]
    daemon.restart()
    assert kept(daemon) == (0, 0)
    assert daemon.tandem("aps", "keep", "2", "--save") == "up to 2 access points are kept, saved; `tandem aps` shows them\n"
    assert "up to 2 access points of one channel, saved" in daemon.tandem("aps") and "aps.keep" in daemon.tandem("saved")
    daemon.restart(how=signal.SIGKILL)
    assert kept(daemon) == (2, 2)
    daemon.tandem("aps", "off")
    assert kept(daemon) == (0, 2) and "no: 0 (this run)" in daemon.tandem("saved")
    daemon.restart()
    assert kept(daemon) == (2, 2) and json.loads(daemon.tandem("saved", "--json"))["run"] == []
    assert daemon.tandem("aps", "off", "--save") == "virtual stations are given up, saved\n" and kept(daemon) == (0, 0)
    daemon.restart()
    assert kept(daemon) == (0, 0) and daemon.tandem("saved") == "nothing is saved\n"


def test_what_is_saved_of_access_points_is_forgotten_like_anything_else(daemon: Daemon) -> None:
    daemon.config(MPTCP)
    daemon.restart()
    daemon.tandem("aps", "keep", "2", "--save")
    assert daemon.tandem("saved", "--forget", "aps.keep") == "aps.keep is forgotten, in force now: 0 (built-in)\n" and kept(daemon) == (0, 0)
    assert daemon.run("saved", "--forget", "aps.keep").returncode == 2
    daemon.tandem("enable", "freeze")
    daemon.tandem("aps", "keep", "2", "--save")
    daemon.tandem("aps", "keep", "4")
    assert {line.split(" is forgotten")[0] for line in daemon.tandem("saved", "--forget", "all").splitlines()} == {"freeze", "aps.keep"}
    assert kept(daemon) == (4, 0)  # of this run
    daemon.restart()
    assert kept(daemon) == (0, 0)


def test_what_is_saved_of_access_points_waits_for_leave_to_use_mptcp(daemon: Daemon) -> None:
    daemon.config(MPTCP)
    daemon.restart()
    daemon.tandem("aps", "keep", "2", "--save")
    daemon.config(FILE)
    daemon.restart()
    assert daemon.says("aps.keep = 2, which is saved, is ignored") and "mptcp.setup" in daemon.tandem("saved") and kept(daemon) == (0, 2)
    assert daemon.run("aps", "keep", "2", "--save").returncode == 1
    daemon.config(MPTCP)
    daemon.restart()
    assert kept(daemon) == (2, 2)


def test_a_torn_file_of_access_points_is_put_aside(daemon: Daemon) -> None:
    daemon.config(MPTCP)
    daemon.restart()
    daemon.tandem("aps", "keep", "2", "--save")
    daemon.end()
    file = daemon.saved.parent / "access-points"
    for wrong in (file.read_text()[:30], file.read_text().replace(": 2", ": 99")):
        file.write_text(wrong)
        daemon.start()
        assert daemon.says("put aside as access-points.aside") and kept(daemon) == (0, 0)
        daemon.end()
