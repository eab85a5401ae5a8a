"""The command line: `tandem ab ...`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Sequence

from tandem_common import provenance
from tandem_common.control import Daemon, add_socket_option
from tandem_common.errors import BadInput, Failure

from . import arms as settings, background, parquet, report
from .arms import Arm
from .plan import GUESSED_SECONDS, Plan
from .progress import Progress
from .quantities import duration, share
from .runner import Runner
from .stopping import Stopped, interruptible
from .store import Store
from .switch import Switch
from .workloads import Command, Download, Requests, Upload, Workload

EPILOG = """\
Settings: MODULE, or joined by + as offload+mirror, or MODULE.KNOB=VALUE; off (nothing is queued) and queued (packets pass the daemon
and stay as they are). One alone is compared with off, A:B with A. Modules that a setting does not name are off in it. The user's own
are put back at the end, on Ctrl-C, and after a crash at the next start.

  tandem ab offload --url https://example.org/big --until 5% --most 40min --report ab/
  tandem ab off:offload+mirror -- iperf3 -R -J -c srv
  tandem ab offload --requests 30 --url https://example.org/small
  tandem ab --null --url https://example.org/big     off against off: is this place quiet enough?
  tandem ab show ab/ [--json] [--parquet FILE]       what is there so far
  tandem ab start --share 20% --for 2d               on your own traffic, in the background; tandem ab start --help
  tandem ab status                                   what that does, and what was found so far
  tandem ab stop

The same command with the same --report goes on where it was. Exit codes: 0 done, 1 failure, 2 wrong usage, 130 interrupted (what was
measured is kept and told).
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="tandem ab", description="What a module gains here, on your own links against servers of others: pairs of equal blocks, one with "
                                   "each setting, in an order tossed by a coin.", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
                                   usage="tandem ab SETTINGS [OPTIONS] (--url URL | --upload URL | -- COMMAND ...)\n       tandem ab --null [OPTIONS] ...\n       tandem ab show DIR [--json] [--parquet FILE]\n       tandem ab start [SETTINGS | --null] [OPTIONS] | stop | status [--json]")
    made.add_argument("settings", nargs="?", metavar="SETTINGS", help="what is compared, see below")
    made.add_argument("--null", action="store_true", help="off against off, in place of SETTINGS")
    made.add_argument("--url", action="append", default=[], metavar="URL", help="download this for a time (with --requests may be repeated)")
    made.add_argument("--upload", metavar="URL", help="upload random bytes there for a time, by PUT")
    made.add_argument("--requests", type=int, metavar="N", help="N requests to the --url, each on a new connection, in place of one long download")
    made.add_argument("--figure", default="", metavar="REGEX", help="of a COMMAND: the number that counts in its output, the one group of REGEX; \"time\": how long it takes")
    made.add_argument("--smaller", action="store_true", help="of a COMMAND with --figure: less is better")
    made.add_argument("--for", dest="measured", default="10s", metavar="TIME", help="measured time of a block (default 10s)")
    made.add_argument("--warm-up", default="3s", metavar="TIME", help="of a block, before it is measured (default 3s)")
    made.add_argument("--washout", default="2s", metavar="TIME", help="pause before a block, so that what server and path remember fades (default 2s)")
    made.add_argument("--until", default="5%", metavar="SHARE", help="stop when the interval is as narrow as plus or minus this (default 5%%)")
    made.add_argument("--most", default="40min", metavar="TIME", help="stop after this time, earlier runs of it included (default 40min)")
    made.add_argument("--report", type=Path, metavar="DIR", help="keep pairs and reports there; goes on with what is there (default tandem-ab-DATE-TIME)")
    made.add_argument("--parquet", type=Path, metavar="FILE", help="also write a row for each block there, for notebooks (needs pyarrow)")
    made.add_argument("--busy", default="50%", metavar="SHARE", help="a pair does not count when other programs use more of the CPU (default 50%%)")
    made.add_argument("--unvalidated", action="store_true", help="pairs of offload count where the cellular path was not validated, too")
    made.add_argument("--seed", type=int, metavar="N", help="of the coin (default: from chance)")
    made.add_argument("--yes", action="store_true", help="do not ask before it begins")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    add_socket_option(made)
    return made


def main(arguments: Sequence[str]) -> int:
    try:
        if arguments[:1] == ["show"]:
            return show(arguments[1:])
        if arguments and arguments[0] in background.WORDS:
            return background.main(arguments)
        place = arguments.index("--") if "--" in arguments else len(arguments)
        given = parser().parse_args(arguments[:place])
        return measure(given, list(arguments[place + 1:]), list(arguments))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read it has seen enough
        return 1
    except KeyboardInterrupt:  # before anything is measured, or after all was
        print("tandem ab: interrupted", file=sys.stderr)
        return 130
    except Failure as failure:
        print(f"tandem ab: {failure}", file=sys.stderr)
        return failure.code


def show(arguments: Sequence[str]) -> int:
    made = argparse.ArgumentParser(prog="tandem ab show", description="What an experiment has found so far.")
    made.add_argument("directory", type=Path, metavar="DIR")
    made.add_argument("--json", action="store_true", help="print it as JSON")
    made.add_argument("--parquet", type=Path, metavar="FILE", help="write a row for each block there, for notebooks (needs pyarrow)")
    given = made.parse_args(arguments)
    if given.parquet:
        parquet.check(given.parquet)
    store = Store(given.directory)
    if not store.load():
        raise BadInput(f"{given.directory}: no experiment of `tandem ab` is there (no experiment.json)")
    tell(report.Result(store.head, store.pairs), given.json)
    if given.parquet:
        parquet.write(report.Result(store.head, store.pairs), given.parquet)
        print(f"wrote {given.parquet}", file=sys.stderr)
    return 0


def tell(result: report.Result, as_json: bool) -> None:
    print(json.dumps(report.document(result), indent=1) if as_json else report.as_text(result))
    sys.stdout.flush()


def workload_of(given: argparse.Namespace, command: list[str], warm_up: float, measured: float) -> Workload:
    wanted = [name for name, there in (("--upload", given.upload), ("--url", given.url), ("-- COMMAND", command)) if there]
    if len(wanted) != 1:
        raise BadInput("what is measured? one of --url URL, --upload URL, -- COMMAND ... is needed" + (f", not {' and '.join(wanted)}" if wanted else ""))
    if (given.figure or given.smaller) and not command:
        raise BadInput("--figure and --smaller are for a command: -- COMMAND ...")
    if given.requests is not None and not given.url:
        raise BadInput("--requests: the address is missing: --url URL")
    if command:
        return Command(command, given.figure, given.smaller)
    if given.upload:
        return Upload(given.upload, warm_up, measured)
    if given.requests is not None:
        if not 1 <= given.requests <= 1000:
            raise BadInput(f"--requests {given.requests}: allowed: 1 to 1000")
        return Requests(given.url, given.requests)
    if len(given.url) > 1:
        raise BadInput("--url: several are for --requests N; a download has one")
    return Download(given.url[0], warm_up, measured)


def measure(given: argparse.Namespace, command: list[str], arguments: list[str]) -> int:
    if given.null == bool(given.settings):
        raise BadInput("what is compared? SETTINGS (e.g. offload, or off:offload+mirror), or --null for off against off" + (", not both" if given.null else ""))
    measured, warm_up = duration("--for", given.measured, 0.2), duration("--warm-up", given.warm_up)
    washout, most = duration("--washout", given.washout), duration("--most", given.most, 1)
    until, busy = share("--until", given.until, 0.001, 1.0), share("--busy", given.busy, 0.0, 1.0)
    workload = workload_of(given, command, warm_up, measured)
    if given.parquet:
        parquet.check(given.parquet)
    daemon = Daemon(given.socket)
    modules = daemon.modules()
    arms = settings.null() if given.null else settings.parse(given.settings, list(modules))
    settings.check(arms, settings.knobs_of(modules))
    status = daemon.get("/v1/status")
    if (off := status.get("hands_off")) and any(arm.modules for arm in arms):
        raise Failure(f"Tandem has its hands off all flows here: {off}. Its modules would do nothing, and their gain would be measured as none; tandem ab --null says how quiet this place is")
    directory = given.report or Path(time.strftime("tandem-ab-%Y%m%d-%H%M%S"))
    store = Store(directory)
    head = {"arms": [{"name": arm.name, "modules": sorted(arm.modules), "knobs": dict(arm.knobs)} for arm in arms], "null": given.null, "workload": workload.describe(),
            "unit": workload.unit, "smaller_is_better": workload.smaller_is_better, "for_s": measured, "warm_up_s": warm_up, "washout_s": washout, "until": until,
            "seed": int.from_bytes(os.urandom(4), "big") if given.seed is None else given.seed, "unvalidated": given.unvalidated,
            "command": shlex.join(["tandem", "ab", *arguments]), "begun": time.strftime("%Y-%m-%d %H:%M:%S %z"),
            "machine": f"Linux {os.uname().release}, {provenance.cpu()}", "version": str(status.get("version", "unknown"))}
    if store.load() and store.pairs:
        store.check(head)
        if given.seed not in (None, store.head["seed"]):
            raise BadInput(f"--seed {given.seed}: the experiment in {directory} has seed {store.head['seed']}; leave it out, or choose another --report")
        store.head["until"] = until
    else:
        store.head = head
    left = most - sum(pair["seconds"] for pair in store.pairs)
    if left <= 0:
        raise BadInput(f"--most {given.most}: the pairs in {directory} took as long already; allow more time, or see `tandem ab show {directory}`")
    plan = plan_of(store, workload, arms, left, until, daemon)
    ask(plan, directory, len(store.pairs), given.yes)
    store.begin()
    return run(given, daemon, workload, arms, store, left, busy)


def plan_of(store: Store, workload: Workload, arms: list[Arm], most: float, until: float, daemon: Daemon) -> Plan:
    """By the pairs there are, else by what the driver says, else by guesses that are said to be such."""
    result = report.Result(store.head, store.pairs)
    good = [pair for pair in store.pairs if not pair["discarded"]]
    trials = [trial for pair in good for trial in pair["trials"].values()]
    deviations = [one.deviation for one in result.comparisons if one.pairs >= 3]
    rate = volume = None
    if trials and workload.unit == "Mb/s":
        rate = sum(trial["figure"] for trial in trials) / len(trials)
    elif trials:
        volume = sum(trial["bytes"] for trial in trials) / len(trials)
    elif workload.seconds:
        aps = [ap["mbps"] for ap in daemon.get("/v1/links")["wifi"].get("aps", []) if ap.get("associated") and ap.get("mbps")]
        rate = 0.6 * aps[0] if aps else None
    block = workload.seconds or (sum(trial["wall_s"] for trial in trials) / len(trials) if trials else GUESSED_SECONDS)
    return Plan(len(arms), block, workload.seconds is None and not trials, store.head["washout_s"], most, until, max(deviations, default=None) or None, len(good), rate, volume,
                sum("offload" in arm.modules and arm.name != settings.QUEUED for arm in arms), workload.seconds is not None)


def ask(plan: Plan, directory: Path, done: int, yes: bool) -> None:
    """Says what it will cost. Raises BadInput when nobody can answer, Failure when the answer is no."""
    for line in plan.lines():
        print(line, file=sys.stderr)
    print(f"Pairs and reports are kept in {directory}" + (f", which has {done} pairs already" if done else ""), file=sys.stderr)
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadInput("nobody is there to answer whether this may begin; --yes begins without asking")
    print("Begin? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("not begun")


def run(given: argparse.Namespace, daemon: Daemon, workload: Workload, arms: list[Arm], store: Store, left_s: float, busy: float) -> int:
    """Pairs until the interval is narrow, the time is over or somebody stops it; then the reports, in every case."""
    result = report.Result(store.head, store.pairs)
    until = time.monotonic() + left_s
    interrupted, fault = False, None
    progress = Progress(result, until)
    with interruptible():
        try:
            with Switch(daemon) as switch:
                if switch.recovered:
                    print(f"tandem ab: {switch.recovered}", file=sys.stderr)
                runner = Runner(daemon, switch, workload, arms, store, progress.doing, busy, given.unvalidated)
                while time.monotonic() < until and not progress.done():
                    progress.pair(runner.pair())
                    runner.hopeless()
        except Stopped:
            interrupted = True
        except Failure as failure:
            fault = failure
        progress.clear()
        if store.pairs:
            written = report.write(result, store.directory)
            if given.parquet:
                parquet.write(result, given.parquet)
                written.append(given.parquet)
            tell(result, given.json)
            print(f"wrote {', '.join(str(path) for path in written)}", file=sys.stderr)
    if fault:
        raise fault
    if interrupted:
        print("tandem ab: interrupted; the same command goes on" + ("" if given.report else f" with --report {store.directory}"), file=sys.stderr)
        return 130
    return 0
