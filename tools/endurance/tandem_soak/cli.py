"""tools/soak: the command line of the endurance run."""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from tandem_common import signals
from tandem_common.duration import duration
from tandem_common.errors import BadInput
from tandem_common.provenance import commit, cpu
from tandem_common.whole import unwritable, written_whole
from tandem_lab import errors as lab_errors, system, virtual, virtual_machine as machine

from .days import DAY, Days
from .run import Outcome, Plan, Soak


SOAK = str(Path(__file__).resolve().parents[2] / "soak")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="tools/soak", description="Endurance: transfers through blackouts, losses, NAT, flaps, kill -9, SIGSTOP, reloads and a hundred module toggles a second, each checked by SHA-256.",
        epilog="Exit codes: 0 nothing changed, hung, broke or leaked; 1 something did, or the lab cannot run here; 2 wrong usage; 130 interrupted.")
    made.add_argument("--for", dest="length", metavar="TIME", help="how long it is disturbed: 30s, 10min, 8h (default 10min)")
    made.add_argument("--days", type=int, metavar="N", help="instead: a laptop left on for so many days, in virtual time, without faults of its daemon's making (docs/lab.md)")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="of traffic, disturbances and air (default %(default)s)")
    made.add_argument("--threads", type=int, metavar="N", help="transfers at a time (default 12; with --days 4)")
    made.add_argument("--held", type=int, default=0, metavar="N", help="further connections that stay open, each used every 30 s (default none)")
    made.add_argument("--opened", type=int, default=0, metavar="N", help="further connections that come and go, a second (default none)")
    made.add_argument("--plain", action="store_true", help="the same without the daemon: what the disturbances do by themselves")
    made.add_argument("--no-mptcp", action="store_true", help="no connection asks for MPTCP")
    made.add_argument("--mptcp-only", action="store_true", help="every connection asks for MPTCP (default: a quarter of them)")
    made.add_argument("--strip-mptcp", action="store_true", help="a middlebox before the server takes MPTCP's options out: who asks for it falls back to TCP")
    made.add_argument("--json", type=Path, metavar="FILE", help="the report as JSON")
    made.add_argument("--log", type=Path, metavar="FILE", help="keep the daemon's log")
    made.add_argument("--keep", type=Path, metavar="DIR", help="where the packets of transfers that went wrong are kept, with what befell them (default: beside the JSON, else soak-SEED-kept here)")
    made.add_argument("--prefix", default="soak-", help="of the lab's namespaces (default %(default)s)")
    return made


def report(plan: Plan, outcome: Outcome, command: str) -> dict[str, Any]:
    """Everything, for programs."""
    made = {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(outcome).items()}
    made["bad"] = outcome.bad[:200]
    return {"command": command, **commit(), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "seed": plan.seed, "asked_s": plan.seconds, "plain": plan.plain,
            "kernel": f"{platform.system()} {platform.release()}", "cpu": cpu(), "zero": outcome.zero, "good": outcome.good, "slowest": outcome.slowest, **made}


def text(plan: Plan, outcome: Outcome) -> str:
    """The same for people."""
    lines = [f"{'without the daemon, ' if plan.plain else ''}{outcome.seconds:.0f} s, seed {plan.seed}{', interrupted' if outcome.interrupted else ''}", ""]
    lines += [f"{outcome.transfers['whole']:9} transfers whole ({outcome.bytes / 1e6:.0f} MB, the slowest {outcome.slowest:.1f} s)"]
    lines += [f"{count:9} {what}" for what, count in outcome.zero.items()]
    if outcome.transfers["no route"]:
        lines.append(f"{outcome.transfers['no route']:9} attempts while an interface was taken away (no route)")
    lines += ["", "transfers by kind"] + [f"{count:9} {kind}" for kind, count in sorted(outcome.kinds.items())]
    lines += ["", "disturbances"] + [f"{count:9} {name}" for name, count in sorted(outcome.disturbances.items())]
    if not plan.plain:
        lines += ["", "daemon", f"{outcome.lives:9} lives"] + [f"{count:9} {name}" for name, count in sorted(outcome.daemon.items())]
        if outcome.memory:
            lines.append("          " + ", ".join(f"{key} {value}" for key, value in outcome.memory.items()))
    if outcome.crowd:
        lines += ["", "further connections"] + [f"  {name.replace('_', ' ')}: {value}" for name, value in outcome.crowd.items()]
    if outcome.kept:
        lines += ["", "connections that stay"] + [f"  {name}: {one['turns']} turns, {one['bytes'] / 1e6:.1f} MB, the last one {one['age'] / 86400:.2f} days old" for name, one in outcome.kept.items()]
    for title, found in (("leaked", outcome.leaks), ("findings", outcome.findings), ("the lab's own errors", outcome.lab_errors[:20])):
        if found:
            lines += ["", title] + [f"  {line}" for line in found]
    for title, ones in (("transfers that failed", outcome.bad[:40]), ("the slowest ones", outcome.slowest_ones)):
        if ones:
            lines += ["", title] + [told(one) for one in ones]
    return "\n".join(lines)


def told(one: dict[str, Any]) -> str:
    """One transfer, for people."""
    words = (f"  {one.get('at', 0):7.1f} s {one['outcome']}: {one['kind']}, {one['bytes']} of {one['wanted']} bytes, {one['seconds']:.1f} s, "
             f"{one.get('address', '?')} port {one.get('port', '?')}{': ' if one.get('why') else ''}{one.get('why', '')}")
    return words + "".join(f"\n            {name}: {one[key]}" for name, key in (("reset by", "reset"), ("packets in", "packets")) if key in one)


def check_days(options: argparse.Namespace) -> None:
    """Raises BadInput for what does not go with --days."""
    if not 1 <= options.days <= 366:
        raise BadInput(f"--days {options.days}: allowed: 1 to 366")
    if others := [name for name, given in (("--for", options.length), ("--held", options.held), ("--opened", options.opened), ("--plain", options.plain), ("--strip-mptcp", options.strip_mptcp)) if given]:
        raise BadInput(f"--days: allowed without {', '.join(others)}")


def in_virtual_time(arguments: list[str], options: argparse.Namespace) -> int:
    """The same in a kernel whose clock leaps over the hours in which nothing happens. What it writes comes out by directories that it is handed."""
    kept = kept_in(options).resolve()
    at_the_end(signal.default_int_handler)  # as Ctrl-C: what is temporary goes
    with tempfile.TemporaryDirectory(prefix="tandem-soak-") as room:
        made = {option: Path(room) / option.lstrip("-") for option, path in (("--json", options.json), ("--log", options.log)) if path}
        # Of an option that is there twice the last one counts.
        inside = [SOAK, *arguments, "--keep", str(kept), *(word for option, path in made.items() for word in (option, str(path)))]
        try:
            code = machine.run(inside, seed=options.seed, directories=[Path(room), kept], environment={"TANDEM_BIN_DIR": str(system.tandem_binary("tandemd").parent)},
                               say=machine.to_terminal).exit_code
            if "--json" in made and made["--json"].exists():
                words = {**json.loads(made["--json"].read_text()), "command": command(arguments)}
                with written_whole(options.json) as fresh:
                    fresh.write_text(json.dumps(words, indent=1) + "\n")
            if "--log" in made and made["--log"].exists():
                with written_whole(options.log) as fresh:
                    shutil.copyfile(made["--log"], fresh)
            return code
        except lab_errors.LabError as error:
            print(f"tools/soak: {error}", file=sys.stderr)
            return error.code
        except OSError as error:
            print(f"tools/soak: {error.filename}: {error.strerror}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            with suppress(OSError):  # something went wrong, and is in it
                kept.rmdir()


def at_the_end(handler: Callable[..., Any]) -> None:
    """Of a signal that asks for it: also where the terminal is closed, but not where nohup(1) has that ignored."""
    for number in signals.that_end():
        signal.signal(number, handler)


def command(arguments: list[str]) -> str:
    return "tools/soak " + shlex.join(arguments)


def kept_in(options: argparse.Namespace) -> Path:
    if options.keep:
        return options.keep
    return options.json.with_name(options.json.stem + "-kept") if options.json else Path(f"soak-{options.seed}-kept")


def there(directory: Path) -> Path:
    """What of it there is: it is made when something goes wrong, and then it has to be possible."""
    return next(place for place in (directory.absolute(), *directory.absolute().parents) if place.exists())


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        if options.days is not None:
            check_days(options)
        seconds = options.days * DAY if options.days else duration("--for", options.length or "10min", least=5.0)
        threads = options.threads if options.threads is not None else 4 if options.days else 12
        if options.no_mptcp and options.mptcp_only:
            raise BadInput("--no-mptcp and --mptcp-only: allowed: one of them")
        if not 1 <= threads <= 256:
            raise BadInput(f"--threads {threads}: allowed: 1 to 256")
        for name, number, most in (("--held", options.held, 40_000), ("--opened", options.opened, 2000)):
            if not 0 <= number <= most:
                raise BadInput(f"{name} {number}: allowed: 0 to {most}")
        if wrong := unwritable([(option, path) for option, path in (("--json", options.json), ("--log", options.log)) if path], [("--keep", there(kept_in(options)))]):
            raise BadInput(wrong)
    except BadInput as error:
        print(f"tools/soak: {error}", file=sys.stderr)
        return 2
    if options.days and not virtual.inside():
        return in_virtual_time(arguments, options)
    plan = Plan(seconds, options.seed, options.prefix, threads, options.plain, 0.0 if options.no_mptcp else 1.0 if options.mptcp_only else 0.25, options.strip_mptcp, options.log, kept_in(options),
                options.held, options.opened)
    stop = threading.Event()
    at_the_end(lambda *_: stop.set())
    soak = (Days if options.days else Soak)(plan, lambda words: print(words, file=sys.stderr, flush=True))
    try:
        outcome = soak.run(stop)
    except lab_errors.BadInput as error:
        print(f"tools/soak: {error}", file=sys.stderr)
        return 2
    except (lab_errors.LabError, OSError) as error:
        print(f"tools/soak: {error}", file=sys.stderr)
        return 1
    print(text(plan, outcome))
    if options.json:
        try:
            words = json.dumps(report(plan, outcome, command(arguments)), indent=1) + "\n"
            with written_whole(options.json) as fresh:
                fresh.write_text(words)
        except OSError as error:
            print(f"tools/soak: --json {options.json}: {error.strerror}; it is not written", file=sys.stderr)
            return 1
    return 130 if outcome.interrupted else 0 if outcome.good else 1
