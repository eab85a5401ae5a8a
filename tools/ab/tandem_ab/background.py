"""`tandem ab start`, `stop` and `status`: an experiment on the user's own traffic that goes on without a terminal.

The process that measures is the caller's own, without further privileges; it may ask the daemon, and nothing else. What it needs is in the experiment's directory.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from tandem_common import confidence, provenance
from tandem_common.alone import locked
from tandem_common.control import Daemon, add_socket_option
from tandem_common.duration import clock
from tandem_common.errors import BadInput, Failure
from tandem_common.whole import written_whole

from . import arms as settings, by_flow, report
from .arms import Arm
from .own import Experiment
from .quantities import count, duration, share
from .stopping import Stopped, by_signal, interruptible
from .store import Store
from .switch import Switch, state_directory, state_file

WORDS = ("start", "stop", "status", "in-background")
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_STOP_S = 30.0  # a block is left at once, but modules are put back by the daemon

START_EPILOG = """\
Blocks of time with one setting and with another come in pairs, in an order tossed by a coin, while you do what you do. Between pairs your own setting is in force.
A pair begins when something is being downloaded; of each block the connections count that began in it. It goes on without this terminal until --for is over.

  tandem ab start                    all modules that are on, against off
  tandem ab start offload --share 10% --for 1d
  tandem ab start --null             off against off: must find nothing
  tandem ab status                   what it does, and what was found so far
  tandem ab stop                     end it; your modules are as before

After a restart of the machine `tandem ab start` alone goes on with what was begun.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="tandem ab start", description="What modules gain for your own traffic.", epilog=START_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("settings", nargs="?", metavar="SETTINGS", help="as for tandem ab; default: the modules that are on, against off")
    made.add_argument("--null", action="store_true", help="off against off, in place of SETTINGS: is your own traffic even enough to find something in?")
    made.add_argument("--share", default="20%", metavar="SHARE", help="of the time for the experiment at most (default 20%%)")
    made.add_argument("--for", dest="lasts", default="2d", metavar="TIME", help="until it ends (default 2d)")
    # Long against what a page or a piece of a film takes, so that most of what begins in a block ends in it; short enough for 8 pairs in some hours of use.
    made.add_argument("--block", default="2min", metavar="TIME", help="length of a block (default 2min: most downloads that begin in it end in it, and hours of use give enough pairs)")
    made.add_argument("--washout", default="5s", metavar="TIME", help="pause before a block, so that queues drain (default 5s)")
    made.add_argument("--until", default="5%", metavar="SHARE", help="end before when the interval is as narrow as plus or minus this (default 5%%)")
    made.add_argument("--per", choices=("time", "flow"), default="time", help="flow: settings by connection, at the same time, as the daemon's evidence draws them; biased, for they share the air")
    made.add_argument("--report", type=Path, metavar="DIR", help="keep pairs and reports there (default beside the state, see status)")
    made.add_argument("--busy", default="90%", metavar="SHARE", help="a pair does not count when other programs use more of the CPU (default 90%%)")
    made.add_argument("--unvalidated", action="store_true", help="pairs of offload count where the cellular path was not validated, too")
    made.add_argument("--seed", type=int, metavar="N", help="of the coin (default: from chance)")
    add_socket_option(made)
    return made


def _simple(action: str, words: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"tandem ab {action}", description=words)
    add_socket_option(made)
    return made


def main(words: Sequence[str]) -> int:
    action, rest = words[0], words[1:]
    if action == "start":
        return start(parser().parse_args(rest), list(words))
    if action == "in-background":  # what `start` runs; for nobody else
        return measure(Path(rest[0]), rest[1])
    made = _simple(action, "End the experiment on your own traffic." if action == "stop" else "What the experiment on your own traffic does, and what was found so far.")
    if action == "status":
        made.add_argument("--json", action="store_true", help="print it as JSON")
    given = made.parse_args(rest)
    return stop(given.socket) if action == "stop" else status(given.socket, given.json)


# -- what is known of the one experiment for a daemon


@dataclass(frozen=True)
class Note:
    """`phase`: running, or how it ended; `process`: who runs it, told from others that get its number later, also after a restart of the machine."""

    directory: str = ""
    process: str = ""
    phase: str = ""
    doing: str = ""

    @property
    def pid(self) -> int:
        return int(self.process.split()[0]) if self.process else 0

    @property
    def alive(self) -> bool:
        return bool(self.process) and self.phase == "running" and process_name(self.pid) == self.process


def process_name(pid: int) -> str:
    """Number, start and boot of a process; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if stat[0] == "Z" else f"{pid} {stat[19]} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    except OSError:
        return ""


def note_file(socket: str) -> Path:
    return state_file("own", socket)


def read_note(socket: str) -> Note:
    try:
        told = json.loads(note_file(socket).read_text())
        return Note(**{key: str(told.get(key, "")) for key in ("directory", "process", "phase", "doing")})
    except (OSError, ValueError, AttributeError):
        return Note()


def write_note(socket: str, note: Note) -> None:
    file = note_file(socket)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(file) as fresh:
            fresh.write_text(json.dumps(vars(note)))
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}; XDG_STATE_HOME names another place") from error


def take_back(socket: str) -> None:
    """After a kill -9: the user's modules."""
    try:
        if words := Switch(Daemon(socket)).take_back():
            print(f"tandem ab: {words}", file=sys.stderr)
    except Failure:
        pass  # no daemon, nothing that is set


# -- start


def start(given: argparse.Namespace, words: list[str]) -> int:
    note = read_note(given.socket)
    if note.alive:
        raise Failure(f"an experiment runs already (process {note.pid}): {note.directory}; `tandem ab stop` ends it")
    daemon = Daemon(given.socket)
    take_back(given.socket)
    unfinished = Store(Path(note.directory)) if note.phase == "running" and note.directory else None
    if unfinished and unfinished.load() and len(words) == 1 and unfinished.head["own"]["ends"] > time.time():
        print(f"goes on with {unfinished.directory}, which has {count(len(unfinished.pairs), 'pair')}")
        store = unfinished
    else:
        if unfinished and unfinished.head:
            print(f"{unfinished.directory} was interrupted and is left as it is")
        store = _new(given, words, daemon)
    store.begin()
    _stop_mark(store.directory).unlink(missing_ok=True)
    return _detach(store.directory, given.socket)


def _arms(given: argparse.Namespace, daemon: Daemon) -> list[Arm]:
    if given.null:
        if given.settings or given.per == "flow":
            raise BadInput("--null compares off with off, one block after the other: without " + ("SETTINGS" if given.settings else "--per flow"))
        return settings.null()
    modules = daemon.modules()
    if given.settings:
        made = settings.parse(given.settings, list(modules))
    else:
        on = [name for name, module in modules.items() if module["enabled"]]
        if not on:
            raise BadInput(f"no module is on; name what is compared with off: {', '.join(modules)}")
        made = settings.parse("+".join(on), list(modules))
    settings.check(made, settings.knobs_of(modules))
    if given.per == "flow":
        if len(made) != 2 or made[0].modules or len(made[1].modules) != 1 or made[1].knobs:
            raise BadInput("--per flow: one module alone can be compared with off, e.g. tandem ab start offload --per flow")
        if not ((daemon.get("/v1/status").get("evidence") or {}).get("share") or 0):
            raise BadInput("--per flow: the daemon leaves no connection plain (evidence.share = 0 in its configuration)")
    return made


def _new(given: argparse.Namespace, words: list[str], daemon: Daemon) -> Store:
    lasts, block = duration("--for", given.lasts, 1), duration("--block", given.block, 1)
    part, until, busy = share("--share", given.share, 0.001, 1.0), share("--until", given.until, 0.001, 1.0), share("--busy", given.busy, 0.0, 1.0)
    washout = duration("--washout", given.washout)
    arms = _arms(given, daemon)
    if given.per == "time":
        pair_s = len(arms) * (block + washout)
        most = int(lasts * part / pair_s)
        print(f"A pair takes {clock(pair_s)}, then your own setting has {clock(pair_s * (1 / part - 1))}: at most {count(most, 'pair')} until the end, fewer while nothing is downloaded")
        if most < confidence.LEAST:
            raise BadInput(f"below {confidence.LEAST} pairs nothing is claimed: allow a longer --for, a larger --share or a shorter --block")
    else:
        print(report.SHARED_AIR)
    directory = (given.report or state_directory() / time.strftime("ab-%Y%m%d-%H%M%S")).absolute()
    store = Store(directory)
    if store.load():
        raise BadInput(f"--report {directory}: holds an experiment already; choose another directory")
    store.head = {"arms": [{"name": arm.name, "modules": sorted(arm.modules), "knobs": dict(arm.knobs)} for arm in arms], "null": given.null, "workload": {"kind": "own"},
                  "unit": "Mb/s", "smaller_is_better": False, "for_s": block, "warm_up_s": 0.0, "washout_s": washout if given.per == "time" else 0.0, "until": until,
                  "seed": int.from_bytes(os.urandom(4), "big") if given.seed is None else given.seed, "unvalidated": given.unvalidated,
                  "own": {"per": given.per, "share": part, "ends": time.time() + lasts, "busy": busy},
                  "command": shlex.join(["tandem", "ab", *words]), "begun": time.strftime("%Y-%m-%d %H:%M:%S %z"),
                  "machine": f"Linux {os.uname().release}, {provenance.cpu()}", "version": str(daemon.get("/v1/status").get("version", "unknown"))}
    return store


def _detach(directory: Path, socket: str) -> int:
    """As `tandem up` does: a session of its own, nothing of the caller's stays open."""
    log = directory / "log"
    script = Path(__file__).resolve().parents[1] / "ab.py"
    try:
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as out:
            child = subprocess.Popen([sys.executable, str(script), "in-background", str(directory), os.path.abspath(socket)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/",
                                     start_new_session=True, close_fds=True)
    except OSError as error:
        raise Failure(f"{error.filename or log}: {error.strerror}") from error
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if read_note(socket).pid == child.pid:
            print(f"runs in the background (process {child.pid}); pairs, reports and log: {directory}\n`tandem ab status` says how it goes, `tandem ab stop` ends it")
            return 0
        if child.poll() is not None:
            break
        time.sleep(0.05)
    raise Failure(f"the experiment did not begin: {(log.read_text().splitlines() or ['no word'])[-1]}")


# -- in the background


def measure(directory: Path, socket: str) -> int:
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.umask(0o077)
    store = Store(directory)
    if not store.load():
        raise BadInput(f"{directory}: no experiment")
    note_file(socket).parent.mkdir(parents=True, exist_ok=True)
    with locked(note_file(socket).with_suffix(".lock"), Failure("an experiment runs already; `tandem ab status`")):
        return _measure(store, socket)


def _measure(store: Store, socket: str) -> int:
    name = process_name(os.getpid())

    def tell(doing: str, phase: str = "running") -> None:
        write_note(socket, Note(str(store.directory), name, phase, doing))
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {doing}", flush=True)

    daemon = Daemon(socket)
    with interruptible():
        try:
            tell("begins")  # from here on others know whom to send a signal
            if store.head["own"]["per"] == "flow":
                why = by_flow.run(daemon, store, tell)
            else:
                why = Experiment(daemon, store, store.head["own"]["busy"], tell).run()
            phase = "ended"
        except Stopped:
            why, phase = _asked_to_stop(store)
        except Failure as failure:
            why, phase = _asked_to_stop(store) if by_signal(failure) else (str(failure), "failed")
        except Exception as error:  # a fault of this program is told by `status`, too; the log has where it was
            traceback.print_exc()
            why, phase = f"{type(error).__name__}: {error}; see {store.directory}/log", "failed"
        kept = Store(store.directory)  # as it is on the disk: a signal may have come between a pair's line and its place in memory
        if kept.load() and kept.pairs:
            report.write(report.Result(kept.head, kept.pairs), kept.directory)
        tell(why, phase)
    return 0 if phase != "failed" else 1


def _stop_mark(directory: Path) -> Path:
    """There while `tandem ab stop` wants the end: a signal without it is the end of the session or of the machine, and the experiment is to be continued."""
    return directory / "stop"


def _asked_to_stop(store: Store) -> tuple[str, str]:
    mark = _stop_mark(store.directory)
    if not mark.exists():
        return "ended by a signal: the end of the session, or of the machine", "running"
    mark.unlink(missing_ok=True)
    return "by `tandem ab stop`", "stopped"


# -- stop and status


def stop(socket: str) -> int:
    note = read_note(socket)
    if note.alive:
        try:
            _stop_mark(Path(note.directory)).touch()
        except OSError as error:
            raise Failure(f"{error.filename}: {error.strerror}") from error
        os.kill(note.pid, signal.SIGTERM)
        until = time.monotonic() + _STOP_S
        while process_name(note.pid) == note.process:
            if time.monotonic() > until:
                raise Failure(f"process {note.pid} does not end; its log: {note.directory}/log")
            time.sleep(0.05)
    elif note.phase == "running":
        write_note(socket, Note(note.directory, "", "stopped", "was not running any more"))
    take_back(socket)
    if not note.directory or note.phase != "running":
        print("no experiment is running")
        return 0
    print("stopped; your modules are as before")
    return _found(Path(note.directory))


def status(socket: str, as_json: bool) -> int:
    take_back(socket)
    note = read_note(socket)
    if not note.directory:
        print(json.dumps({"phase": "none"}) if as_json else "no experiment on your own traffic; `tandem ab start` begins one")
        return 0
    store = Store(Path(note.directory))
    there = store.load()
    phase = note.phase
    if phase == "running" and not note.alive:
        phase = "interrupted"
    if as_json:
        result = report.document(report.Result(store.head, store.pairs)) if there else None
        print(json.dumps({"phase": phase, "doing": note.doing, "directory": note.directory, "process": note.pid if note.alive else None, "result": result}, indent=1))
        return 0
    left = store.head["own"]["ends"] - time.time() if there else 0.0
    if phase == "running":
        print(f"runs for {clock(left)} still: {note.doing}")
    elif phase == "interrupted":
        print("interrupted: killed, or the machine was started anew; " + (f"`tandem ab start` goes on, {clock(left)} are left" if left > 0 else "its time is over"))
    else:
        print(f"{phase}: {note.doing}")
    print(f"directory: {note.directory}")
    return _found(Path(note.directory))


def _found(directory: Path) -> int:
    store = Store(directory)
    if store.load() and store.pairs:
        print(report.as_text(report.Result(store.head, store.pairs)))
    else:
        print("no pair yet")
    return 0
