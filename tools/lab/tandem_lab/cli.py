"""The command line of the lab: `tandem lab ...` runs this."""

from __future__ import annotations

import argparse
import errno
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Sequence

from tandem_common import signals

from . import life, scenario, show, sockets, system, topology, virtual
from .api import Lab
from .errors import BadInput, LabError

_LAB_PY = Path(__file__).resolve().parents[1] / "lab.py"
_MACHINES_SOCKET = "/run/tandem/control.sock"
_TO_TRY = [
    ("ip route", "two ways out"),
    ("ping -c 5 {server}", "over Wi-Fi"),
    ("ping -c 5 -I cell0 {server}", "over cellular"),
    ("curl -o /dev/null http://{server}/10M", "a download (1k 100k 1M 10M 100M 1G random; https too)"),
    ("iperf3 -R -t 10 -c {server}", "the server sends"),
    ("ss -tin", "what the client's TCP thinks"),
]
_IN_ANOTHER_TERMINAL = [
    ("tandem lab status{prefix}", "what is up"),
    ("tandem lab exec{prefix} -n srv1 ss -tin", "what the server's TCP thinks"),
    ("tandem lab set{prefix} wifi.loss 0.01", "change the air while traffic runs"),
]


def _shell_message(info: dict[str, Any], stays: bool) -> str:
    """What greets a person in the client."""
    server = next(iter(info["servers"].values()))["ipv4"]
    prefix = "" if info["prefix"] == topology.DEFAULT_PREFIX else f" --prefix {info['prefix']}"
    places = [["  " + name, entry["ipv4"], entry["ipv6"],
               ("Wi-Fi, the default route" if name == "wlan0" else "Wi-Fi") + (f", at {entry['ap']}" if len(info["interfaces"]) > 1 else "")]
              for name, entry in info["interfaces"].items()]
    if info["cell"]:
        places.append(["  cell0", *topology.CELL_CLIENT, f"cellular, the second way (metric {topology.CELL_METRIC})"])
    places += [["  " + name, entry["ipv4"], entry["ipv6"], f"server, {entry['congestion']}"] for name, entry in info["servers"].items()]
    commands = [["  " + command.format(server=server, prefix=prefix), words] for command, words in [*_TO_TRY, *_IN_ANOTHER_TERMINAL]]
    lines = show.table(commands).splitlines()
    return "\n".join([
        "", f"You are in the client of the lab \"{info['scenario']}\": {info['summary']}", "", show.table(places), "", "Things to try:",
        *lines[:len(_TO_TRY)], "Tandem itself, which leaves private addresses such as the lab's alone unless told otherwise; then tandem status, tandem flows:",
        f"  tandem up --wifi wlan0 --cell {'cell0' if info['cell'] else 'none'} --set links.private_peers=as_others", "In another terminal:", *lines[len(_TO_TRY):],
        "Leave with `exit`" + ("; the lab stays up." if stays else "; the lab then goes away."), ""])


def _client_environment(lab: Lab) -> dict[str, str]:
    """A daemon started in the client has a socket of its own: namespaces share /run, and at the default one, which `tandem lab` hands on, the
    machine's own daemon is met."""
    if os.environ.get("TANDEM_SOCKET", _MACHINES_SOCKET) != _MACHINES_SOCKET:
        return dict(os.environ)
    return {**os.environ, "TANDEM_SOCKET": str(lab.directory / "tandem" / "control.sock")}


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text}: allowed: seconds above 0, up to 86400 (a day)")
    return value


def _whole_from(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text}: allowed: a whole number from {least}")
        return int(text)

    return whole


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tandem lab", description="An emulated world for one laptop: Wi-Fi, cellular, servers.",
                                     epilog="Scenario files: docs/lab-scenarios.md. Everything needs root.")
    in_time = argparse.ArgumentParser(add_help=False)
    in_time.add_argument("--time", choices=("real", "virtual"), default=argparse.SUPPRESS, help="virtual: inside a kernel whose clock moves only when everything "
                         "waits, so equal seeds give equal figures (docs/lab.md); only for run (default real)")
    parser.add_argument("--time", choices=("real", "virtual"), default="real", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--prefix", default=topology.DEFAULT_PREFIX, help="of the namespaces' names; labs with different prefixes run side by side (default %(default)s)")
    common.add_argument("--json", action="store_true", help="print JSON instead of a table")
    build = argparse.ArgumentParser(add_help=False)
    build.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="replace a value of the scenario, e.g. wifi.loss=0.003; may be repeated")
    build.add_argument("--seed", type=_whole_from(0), help="of the air (default: the scenario's)")
    build.add_argument("--congestion", choices=scenario.CONGESTION_CONTROLS, help="for every server, in place of the scenario's")
    build.add_argument("--no-air", action="store_true", help="plain veth pairs instead of the emulator")

    up = commands.add_parser("up", parents=[common, build, in_time], help="set a lab up and leave it running")
    up.add_argument("scenario", help="a file, or the name of one that comes with the lab")
    up.add_argument("--hold", action="store_true", help="do not start the scenario's timeline")
    commands.add_parser("down", parents=[common], help="remove a lab, also the ruins of a killed one")
    commands.add_parser("status", parents=[common], help="what is up")
    execute = commands.add_parser("exec", parents=[common], help="run a command inside (in the client, unless -n says otherwise)")
    execute.add_argument("-n", "--name", default="client", help="client, ap1, cgw, wan, srv1, ... (default %(default)s)")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    run = commands.add_parser("run", parents=[common, build, in_time], help="lab up, run a download (or a command), table, lab down")
    run.add_argument("scenario", help="a file, or the name of one that comes with the lab")
    run.add_argument("--seconds", type=_seconds, help="length of the download (default: the scenario's duration)")
    run.add_argument("--flows", type=_whole_from(1), default=1, help="connections side by side (default %(default)s)")
    run.add_argument("--server", default="srv1", help="where from (default %(default)s)")
    run.add_argument("--tls", action="store_true", help="HTTPS instead of HTTP")
    run.add_argument("-6", dest="v6", action="store_true", help="IPv6 instead of IPv4")
    run.add_argument("--results", type=Path, metavar="DIR", help="in virtual time: a directory that the command may write to; whatever else it writes is gone afterwards")
    run.add_argument("--cmd", nargs=argparse.REMAINDER, metavar="COMMAND", help="run this in the client instead of the download (last option)")
    shell = commands.add_parser("shell", parents=[common, build, in_time], help="a shell in the client with both links up")
    shell.add_argument("scenario", nargs="?", help="set this up first and remove it after (default: the lab that is up, else demo)")
    change = commands.add_parser("set", parents=[common], help="change a value of a running lab, e.g. wifi.loss 0.01")
    change.add_argument("key")
    change.add_argument("value")
    commands.add_parser("events", parents=[common], help="what the timeline has done so far")
    commands.add_parser("list", parents=[common], help="the scenarios that come with the lab")
    check = commands.add_parser("check", parents=[common, build], help="check a scenario file, change nothing")
    check.add_argument("scenario")
    return parser


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    return dict(scenario.parse_override(word) for word in options.set)


def _lab(options: argparse.Namespace, name: str, detached: bool = False) -> Lab:
    return Lab(name, overrides=_overrides(options), seed=options.seed, prefix=options.prefix, air=not options.no_air,
               congestion=options.congestion, detached=detached)


def _up(options: argparse.Namespace) -> int:
    lab = _lab(options, options.scenario, detached=True)
    with show.wait_message(f"lab {options.scenario} up"):
        lab.up()
    if lab.info["air"] and not options.hold:
        lab.start_timeline()
    return _status(options)


def _down(options: argparse.Namespace) -> int:
    there = life.remove(options.prefix)
    if options.json:
        print(json.dumps({"prefix": options.prefix, "removed": there}))
    else:
        print(f"lab {options.prefix} removed" if there else f"no lab under the prefix {options.prefix}: nothing to remove")
    return 0


def _status(options: argparse.Namespace) -> int:
    state = life.LabState(options.prefix)
    info = state.read()
    running = state.supervisor() is not None
    if info is None or not running:
        ruins = state.directory.exists()
        if options.json:
            print(json.dumps({"prefix": options.prefix, "up": False, "ruins": ruins}))
        elif ruins:
            print(f"no lab is up under the prefix {options.prefix}, but parts of a killed one are there; remove them: tandem lab down")
        else:
            print(f"no lab is up under the prefix {options.prefix}; start one: tandem lab up SCENARIO")
        return 1
    lab = Lab.attach(options.prefix)
    alive = {name: process.pid for name, process in state.processes()}
    faults = [event["what"] for event in lab.events() if event.get("event") == "fault"]
    if options.json:
        print(json.dumps({"up": True, **info, "processes": alive, "faults": faults, "interfaces": lab.counters(),
                          "directory": str(state.directory)}, indent=2))
        return 0
    air = f"emulated, seed {info['seed']}" if info["air"] else "none (veth pairs)"
    print(show.table([["scenario", f"{info['scenario']}: {info['summary']}"], ["air", air],
                      ["programs", ", ".join(f"{name} ({pid})" for name, pid in alive.items())],
                      ["state", str(state.directory)], *(["fault", fault] for fault in faults)]))
    rows = []
    counted = lab.counters()
    for role, namespace in info["namespaces"].items():
        words = ""
        if role == "client":
            words = "  ".join(f"{name} in {count['packets_in']} out {count['packets_out']} packets" for name, count in counted.items())
        elif role in info["servers"]:
            server = info["servers"][role]
            words = f"{server['ipv4']}  {server['ipv6']}  {server['congestion']}"
        rows.append([role, namespace, words])
    print("\n" + show.table(rows, ["role", "namespace", ""]))
    return 0


def _exec(options: argparse.Namespace) -> int:
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        raise BadInput("exec: no command given; allowed: exec [-n NAME] COMMAND ARGUMENTS...")
    lab = Lab.attach(options.prefix)
    words = lab.endpoint(options.name).argv(argv)
    sys.stdout.flush()
    os.execve(words[0], words, _client_environment(lab) if options.name == "client" else os.environ)


class _RttWatch:
    """Looks at the server's connections with the client twice a second, for the table at the end: `seen` are the biggest ones, `latest` all of the latest look."""

    def __init__(self, lab: Lab, server: str):
        self._lab, self._server = lab, server
        self.seen: list[sockets.Socket] = []
        self.latest: list[sockets.Socket] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            try:
                if found := self._lab.sock_stats(self._server):
                    self.seen.append(found[0])
                    self.latest = found
            except LabError:
                return

    def __enter__(self) -> "_RttWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _run_virtual(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """The same command inside a guest."""
    from . import virtual_machine

    path = scenario.find(options.scenario)
    directories = [options.results] if options.results else []
    if place := virtual_machine.hidden(path, directories):
        raise BadInput(f"scenario {options.scenario}: a lab in virtual time has a {place} of its own and does not see this file; copy it elsewhere, or run it with --time real")
    seed = options.seed if options.seed is not None else scenario.load(path, _overrides(options), options.congestion).seed
    binaries = {} if options.no_air else {"TANDEM_BIN_DIR": str(system.tandem_binary("tandem-air").parent)}
    return virtual_machine.run([system.PYTHON, str(_LAB_PY), *arguments], seed=seed, directories=directories, environment=binaries, say=virtual_machine.to_terminal).exit_code


def _run(options: argparse.Namespace) -> int:
    if options.cmd == []:
        raise BadInput("run --cmd: no command given; allowed: --cmd COMMAND ARGUMENTS..., as the last option")
    lab = _lab(options, options.scenario)
    with show.wait_message(f"lab {options.scenario} up"):
        lab.up()
    try:
        if options.cmd:
            if lab.info["air"]:
                lab.start_timeline()
            return lab.client.popen(options.cmd).wait()
        seconds = options.seconds if options.seconds is not None else float(lab.info["duration"])
        progress = show.Progress(lab.info["scenario"], seconds)
        if lab.info["air"]:
            lab.start_timeline()
        with _RttWatch(lab, options.server) as watch:
            result = lab.start_download(seconds=seconds, server=options.server, tls=options.tls, flows=options.flows,
                                        v6=options.v6).wait(progress)
        progress.end()
        last = watch.seen[-1] if watch.seen else None
        rtts = sorted(entry.rtt_ms for entry in watch.seen)
        report: dict[str, Any] = {
            "scenario": lab.info["scenario"], "seed": lab.info["seed"], "time": "virtual" if virtual.inside() else "real",
            "kernel": virtual.inside() or f"{platform.system()} {platform.release()}", "seconds": round(result.seconds, 3), "bytes": result.bytes,
            "goodput_mbps": round(result.goodput_mbps, 3), "rates_mbps": [round(rate, 2) for rate in result.rates()],
            "longest_gap_s": round(result.longest_gap(), 2), "rtt_ms": rtts[len(rtts) // 2] if rtts else None,
            "retransmitted": sum(entry.retrans for entry in watch.latest) if last else None, "congestion": last.congestion if last else None,
            "interfaces": result.interfaces, "shares": {name: round(share, 4) for name, share in result.shares().items()}, "events": lab.events(), "error": result.error}
        if lab.info["air"]:
            report["air"] = lab.stats()
        if options.json:
            print(json.dumps(report, indent=2))
        else:
            _print_report(report)
        return 1 if result.error else 0
    finally:
        lab.down()


def _print_report(report: dict[str, Any]) -> None:
    rows = [["goodput", f"{report['goodput_mbps']:.2f} Mb/s", f"{report['bytes'] / 1e6:.1f} MB in {report['seconds']:.1f} s"],
            ["longest gap", f"{report['longest_gap_s']:.2f} s", ""]]
    if report["rtt_ms"] is not None:
        rows += [["RTT (median)", f"{report['rtt_ms']:.1f} ms", "as the server's TCP sees it"],
                 ["retransmitted", f"{report['retransmitted']} segments", f"server runs {report['congestion']}"]]
    print(show.table(rows))
    rows = [[name, str(count["packets_in"]), str(count["packets_out"]), str(count["acks_out"])] for name, count in report["interfaces"].items()]
    print("\n" + show.table(rows, ["interface", "packets in", "packets out", "pure ACKs out"]))
    if report["error"]:
        print(f"\nerror: {report['error']}")


def _shell(options: argparse.Namespace) -> int:
    running = life.is_running(options.prefix)
    if running and options.scenario:
        raise LabError(f"a lab is already up under the prefix {options.prefix}; "
                       "use it (tandem lab shell) or take it down first (tandem lab down)")
    if running:
        lab = Lab.attach(options.prefix)
    else:
        lab = _lab(options, options.scenario or "demo")
        with show.wait_message(f"lab {options.scenario or 'demo'} up"):
            lab.up()
        if lab.info["air"]:
            lab.start_timeline()
    try:
        rc = lab.directory / "shell.rc"
        rc.write_text("[ -f ~/.bashrc ] && . ~/.bashrc\nPS1='(lab:client) \\w \\$ '\n")
        print(_shell_message(lab.info, running), flush=True)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the shell's
        try:
            return subprocess.run(lab.client.argv(["bash", "--rcfile", str(rc), "-i"]), env=_client_environment(lab)).returncode
        finally:
            signal.signal(signal.SIGINT, before)
    finally:
        if not running:
            lab.down()


def _set(options: argparse.Namespace) -> int:
    lab = Lab.attach(options.prefix)
    value = scenario.parse_value(options.value)
    lab.set(options.key, value)
    print(json.dumps({options.key: value}) if options.json else f"{options.key} = {scenario.value_text(value)}")
    return 0


def _events(options: argparse.Namespace) -> int:
    events = Lab.attach(options.prefix).events()
    if options.json:
        print(json.dumps(events, indent=2))
    else:
        for event in events:
            print(f"{event['at']:9.3f}  " + "  ".join(f"{key}={value}" for key, value in event.items() if key != "at"))
    return 0


def _list(options: argparse.Namespace) -> int:
    found = []
    for path in scenario.shipped():
        entry = scenario.load(path)
        found.append({"name": path.stem, "summary": entry.summary, "duration": entry.duration, "file": str(path)})
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(show.table([[entry["name"], f"{entry['duration']:g} s", entry["summary"]] for entry in found], ["scenario", "length", "what it is"]))
    return 0


def _check(options: argparse.Namespace) -> int:
    path = scenario.find(options.scenario)
    if not options.no_air:
        scenario.check(path, _overrides(options), options.seed)
    entry = scenario.load(path, _overrides(options), options.congestion)
    if options.json:
        print(json.dumps({"file": str(path), "ok": True, "air": not options.no_air}))
    else:
        unread = "; without the air, whose values were not checked" if options.no_air else ""
        print(f"{path}: good{unread} ({entry.name}: {entry.summary})")
    return 0


_COMMANDS = {"up": _up, "down": _down, "status": _status, "exec": _exec, "run": _run, "shell": _shell, "set": _set,
             "events": _events, "list": _list, "check": _check}
_WITHOUT_ROOT = ("list", "check")


def main(arguments: Sequence[str]) -> int:
    """Runs one command; gives the exit code: 0 good, 1 failure, 2 wrong usage or bad scenario."""
    if arguments[:1] == ["_supervise"]:
        from . import supervisor
        return supervisor.main(arguments[1], int(arguments[2]))
    options = _parser().parse_args(arguments)
    for ends in signals.that_end():
        if ends != signal.SIGINT:  # a KeyboardInterrupt by itself
            signal.signal(ends, lambda number, _: sys.exit(128 + number))
    try:
        if options.command not in _WITHOUT_ROOT and os.geteuid() != 0:
            raise LabError(f"lab {options.command} needs root (it works with network namespaces): sudo tandem lab {options.command}")
        life.LabState(options.prefix)
        if options.time == "virtual" and not virtual.inside():
            if options.command != "run":
                raise BadInput(f"lab {options.command} --time virtual: a lab in virtual time lives as long as one command; allowed: run")
            return _run_virtual(options, arguments)
        if options.command == "run" and options.results and not virtual.inside():
            raise BadInput("--results: in real time a command writes where it likes; allowed with --time virtual")
        code = _COMMANDS[options.command](options)
        sys.stdout.flush()
        return code
    except LabError as error:
        print(f"tandem lab: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        system.output_unread()
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        system.output_unread()
        print(f"tandem lab: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return 1


