"""Puts the daemon into an arm's setting, and back to the user's: at the end, on Ctrl-C, and after a crash at the next start."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Mapping

from tandem_common.alone import locked
from tandem_common.control import Daemon
from tandem_common.errors import Failure
from tandem_common.whole import written_whole

from .arms import Arm

class Busy(Failure):
    """Another run is switching this daemon's modules."""


FORCE_SECONDS = 10.0  # until rules of a module that was switched on are loaded


def state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "tandem"


def state_file(kind: str, socket: str, directory: Path | None = None) -> Path:
    """What is remembered of a daemon, which its control socket tells from others."""
    return (directory or state_directory()) / f"{kind}-{hashlib.sha256(os.path.realpath(socket).encode()).hexdigest()[:16]}.json"


class Switch:
    """`with Switch(daemon) as switch`: the user's modules and knobs are remembered in a file before anything is changed, and put back at the end."""

    def __init__(self, daemon: Daemon, directory: Path | None = None):
        self._daemon = daemon
        self._file = state_file("ab", daemon.path, directory)
        self._held = ExitStack()  # while it switches
        self._before: dict[str, Any] = {}
        self._knobs: dict[str, Any] = {}  # as the daemon told them once an arm was set
        self.recovered = ""  # what was put back of a run that was killed

    def __enter__(self) -> "Switch":
        try:
            self._take_lock()
            self._recover()
            modules = self._daemon.modules()
            self._before = {"process": self._daemon.process(), "modules": {name: module["enabled"] for name, module in modules.items()}, "knobs": _knobs(modules)}
            self._keep()
        except BaseException:
            self._let_go()
            raise
        return self

    def _take_lock(self) -> None:
        busy = Busy("another `tandem ab` is switching this daemon's modules; wait for its end")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(locked(self._file.with_suffix(".lock"), busy))
            # Another user's run has its lock elsewhere. An abstract name is everybody's, and ends with the process.
            self._held.enter_context(socket.socket(socket.AF_UNIX)).bind(f"\0tandem-{self._file.stem}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise busy from None
            raise Failure(f"{self._file.parent}: {error.strerror}; the user's settings are kept there, XDG_STATE_HOME names another place") from error

    def _let_go(self) -> None:
        self._held.close()

    def _keep(self) -> None:
        try:
            with written_whole(self._file) as fresh:
                fresh.write_text(json.dumps(self._before))
        except OSError as error:
            raise Failure(f"{self._file}: {error.strerror}; the user's settings are kept there, XDG_STATE_HOME names another place") from error

    def take_back(self) -> str:
        """Puts back what a run that was killed left behind; gives it in words, empty when there is nothing, or a run is switching now."""
        if not self._file.exists():
            return ""
        try:
            self._take_lock()
            self._recover()
        except Busy:
            return ""
        finally:
            self._let_go()
        return self.recovered

    def __exit__(self, *_: object) -> None:
        try:
            try:
                self._restore(self._before)
            except KeyboardInterrupt:  # it came in the middle, and further ones are ignored by now: half of it is not enough
                self._restore(self._before)
                self._file.unlink(missing_ok=True)
                raise
            self._file.unlink(missing_ok=True)
        except Failure as failure:
            raise Failure(f"your modules are not put back: {failure}. The next `tandem ab` does it, unless the daemon was started anew") from failure
        finally:
            self._let_go()

    def _recover(self) -> None:
        try:
            left = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return
        if left.get("process") == self._daemon.process():
            self._restore(left)
            on = [name for name, enabled in left["modules"].items() if enabled]
            self.recovered = f"a run that was killed had left its setting behind; the modules are as before it: {', '.join(on) or 'all off'}"
        self._file.unlink(missing_ok=True)

    def apply(self, arm: Arm) -> str:
        """Sets knobs and modules, and waits until the rules are in force. Gives why a module is not, empty when all are."""
        self._set(self._before["knobs"] | dict(arm.knobs), {name: name in arm.modules for name in self._before["modules"]})
        self._knobs = _knobs(self._daemon.modules())
        until = time.monotonic() + FORCE_SECONDS
        while True:
            modules = self._daemon.modules()
            waiting = [name for name in sorted(arm.modules) if not modules[name]["in_force"]]
            if not waiting:
                break
            if time.monotonic() > until:
                return f"{waiting[0]} is not in force: {modules[waiting[0]]['in_force_why'] or 'its rules are not loaded yet'}"
            time.sleep(0.1)
        return _resting(modules, arm)

    def touched(self, arm: Arm) -> str:
        """Why a trial of the arm says nothing: somebody else switched a module or turned a knob meanwhile, and what they chose stays at the end; or one has come to rest. Empty: none of it."""
        modules = self._daemon.modules()
        others = [name for name, module in modules.items() if name in self._before["modules"] and module["enabled"] != (name in arm.modules)]
        turned = {name: value for name, value in _knobs(modules).items() if name in self._before["knobs"] and self._knobs.get(name, value) != value}
        if not others and not turned:
            return _resting(modules, arm)  # what it did before it rested, and that it rested, would be taken for one
        self._before["modules"] |= {name: modules[name]["enabled"] for name in others}
        self._before["knobs"] |= turned
        self._keep()
        if others:
            return f"somebody else switched {others[0]} {'on' if modules[others[0]]['enabled'] else 'off'} meanwhile"
        return f"somebody else set {min(turned)} to {turned[min(turned)]} meanwhile"

    def _set(self, knobs: dict[str, Any], enabled: dict[str, bool]) -> None:
        """What differs alone is asked for; knobs before modules, so that none runs with another arm's."""
        modules = self._daemon.modules()
        now = _knobs(modules)
        for name, on in enabled.items():
            if not on and modules.get(name, {}).get("enabled"):
                self._daemon.put(f"/v1/modules/{name}", {"enabled": False})
        for name, value in knobs.items():
            if name in now and now[name] != value:
                module, _, knob = name.partition(".")
                self._daemon.put(f"/v1/modules/{module}/knobs/{knob}", {"value": value})
        for name, on in enabled.items():
            if on and name in modules and not modules[name]["enabled"]:
                self._daemon.put(f"/v1/modules/{name}", {"enabled": True})

    def _restore(self, before: dict[str, Any]) -> None:
        if before:
            self._set(before["knobs"], before["modules"])


def _knobs(modules: Mapping[str, Any]) -> dict[str, Any]:
    """MODULE.KNOB: value, of modules as the daemon tells of them."""
    return {f"{name}.{knob['name']}": knob["value"] for name, module in modules.items() for knob in module["knobs"]}


def _resting(modules: Mapping[str, Any], arm: Arm) -> str:
    resting = [name for name in sorted(arm.modules) if (modules.get(name, {}).get("evidence") or {}).get("standing") in ("resting", "trial")]
    return f"{resting[0]} rests here by evidence (see `tandem networks`)" if resting else ""
