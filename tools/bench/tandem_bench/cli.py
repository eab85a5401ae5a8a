"""The command line: `tandem bench NAME ...`."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Iterator, Sequence

from tandem_common import signals
from tandem_common.whole import unwritable
from tandem_lab import system
from tandem_lab.errors import BadInput, LabError
from tandem_lab import kernels, virtual_machine as machine

from . import catalogue, header, parallel, report, resume, table, virtual
from .model import Bench, Case, Options, Run
from .progress import Progress
from .runner import execute
from .statistics import judge

EPILOG = """\
Every arm of a case runs on the same seeds, in an order that is tossed for each round. The table shows medians over the seeds,
the paired ratios with their 95 % interval, and every goal as met, missed or undecided (the interval contains it). Below 8 pairs
there is no interval. Exit codes: 0 done, 1 a goal missed or undecided or a run failed with --check, or nothing could be measured,
2 wrong usage, 130 interrupted (what was measured until then is written).
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="tandem bench", description="Measures Tandem against no Tandem, against the published "
                                   "method and against what the links allow.", epilog=EPILOG)
    made.add_argument("name", nargs="?", metavar="NAME", help="the bench; see --list")
    made.add_argument("--list", action="store_true", help="list the benches (with NAME: its cases) and exit")
    made.add_argument("--quick", action="store_true", help="fewer and shorter runs, within 4 minutes on 2 cores")
    made.add_argument("--full", action="store_true", help="every combination instead of the covering choice; can take days, see --list")
    made.add_argument("--json", metavar="FILE", type=Path, help="write every run, the paired ratios and the goals (- = standard output)")
    made.add_argument("--markdown", metavar="FILE", type=Path, help="write header and tables as a page")
    made.add_argument("--plot", metavar="DIR", type=Path, help="write NAME.png there")
    made.add_argument("--resume", metavar="FILE", type=Path, help="take over what an earlier run of the same bench, commit and machine wrote there with --json, "
                      "and measure only what is missing, such as further rounds")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="first seed (default 1); each further round takes the next")
    made.add_argument("--rounds", type=int, metavar="N", help="rounds per case, in place of the bench's own number")
    made.add_argument("--case", action="append", default=[], metavar="TEXT", help="only cases whose name contains TEXT, or the one that is called so (may be repeated)")
    made.add_argument("--arm", action="append", default=[], metavar="NAME", help="only this arm (may be repeated); goals that need others are left out")
    made.add_argument("--jobs", type=int, default=1, metavar="N", help="rounds measured at the same time, each in a lab of its own (default 1); "
                      "for benches that mostly wait, see docs/benches.md")
    made.add_argument("--time", choices=("real", "virtual"), help="virtual: each round inside a kernel whose clock moves only when everything waits; "
                      "equal seeds give equal figures, whatever the machine does (default virtual where that kernel is built, but real for what measures "
                      "CPU or how long something waits for it)")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the bench, for all its cases (see --list NAME)")
    made.add_argument("--check", action="store_true", help="exit 1 when a goal is missed or undecided or a run failed, and name it")
    made.add_argument("--prefix", default="bench-", help="prefix of the lab's namespaces (default bench-)")
    made.add_argument("--lock", default="", metavar="FILE", help="hold this file lock during each round, so that measurements take turns")
    made.add_argument("--keep-logs", default="", metavar="DIR", help="keep the daemon's log of every run that failed there; in virtual time a run gives other figures with it than without")
    return made


def main(arguments: Sequence[str]) -> int:
    within = int(arguments[1]) if arguments[:1] == ["_round"] else None  # by virtual.py, inside a guest
    if within is not None:
        arguments = arguments[2:]
    given = parser().parse_args(arguments)
    given.within = within
    try:
        code = _main(given, list(arguments))
        sys.stdout.flush()  # a reader that has gone is heeded here, however little there was to read
        return code
    except BrokenPipeError:
        system.output_unread()
        return 0 if given.list else 1
    except LabError as error:
        print(f"tandem bench: {error}", file=sys.stderr)
        return error.code


def _main(given: argparse.Namespace, arguments: list[str]) -> int:
    if given.name is None:
        if not given.list:
            raise BadInput(f"which bench? allowed: {', '.join(catalogue.CATALOGUE)}; see --list")
        width = max(map(len, catalogue.CATALOGUE))
        for name in catalogue.CATALOGUE:
            print(f"{name:<{width}} {catalogue.load(name).summary}")
        return 0
    if given.name not in catalogue.CATALOGUE:
        raise BadInput(f"bench {given.name}: there is none of that name; allowed: {', '.join(catalogue.CATALOGUE)}")
    if given.seed < 0:
        raise BadInput(f"--seed {given.seed}: allowed: a whole number from 0")
    if given.rounds is not None and given.rounds < 1:
        raise BadInput(f"--rounds {given.rounds}: allowed: a whole number from 1")
    if given.jobs < 1:
        raise BadInput(f"--jobs {given.jobs}: allowed: a whole number from 1")
    bench = catalogue.load(given.name)
    cases = select(bench, given)
    why_real = ""
    if given.within is None and given.time is None:
        given.time, why_real = default_time(bench)
    if given.time == "virtual":
        check_virtual(bench)
    elif given.within is None and given.jobs > 1 and not bench.parallel:
        raise BadInput(f"--jobs {given.jobs}: {bench.name} measures the machine itself and needs it alone; allowed: 1"
                       + ("" if bench.needs_real_time else ", or any number with --time virtual"))
    if given.list:
        for case in cases:
            print(f"{case.name}: {case.seeds} rounds of {', '.join(arm.name for arm in case.arms)}"
                  + "".join(f"; goal {goal.sentence}" for goal in case.goals))
        for key, words in bench.settings.items():
            print(f"--set {key}=...: {words}")
        return 0
    if bench.needs_root and os.geteuid() != 0:
        raise LabError("root is needed: this bench creates network namespaces; run it with sudo")
    if given.within is not None:
        return virtual.inside(bench, cases, given.seed, _options(given), given.within)
    check_places(given)
    if why_real:
        print(f"tandem bench: in real time: {why_real}", file=sys.stderr)
    # In virtual time each round has a machine of its own, and with --lock rounds take turns.
    with prefix_to_itself(given.prefix) if bench.needs_root and given.time == "real" and not given.lock else nullcontext():
        return run(bench, cases, given, arguments)


@contextmanager
def prefix_to_itself(prefix: str) -> Iterator[None]:
    """Raises LabError while another bench makes labs under this prefix: runs of both would fail. An abstract socket leaves no file and dies with its owner."""
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0tandem-bench {prefix}")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise LabError(f"--prefix {prefix}: {error.strerror}") from error
            raise LabError(f"another bench is at work with the prefix {prefix}: runs of both would fail. Wait for its end, choose another --prefix, or take turns with --lock FILE") from None
        yield


def check_places(given: argparse.Namespace) -> None:
    """Raises BadInput for a place that cannot be written to."""
    files = [(option, path) for option, path in (("--json", given.json), ("--markdown", given.markdown)) if path and str(path) != "-"]
    directories = [(option, path) for option, path in (("--plot", given.plot), ("--keep-logs", given.keep_logs and Path(given.keep_logs))) if path]
    if wrong := unwritable(files, directories):
        raise BadInput(wrong)


def default_time(bench: Bench) -> tuple[str, str]:
    """The time whose figures can be trusted here; and where it is real, why."""
    if not bench.needs_root:
        return "real", ""  # of the simulator, whose own time is virtual
    if bench.needs_real_time:
        return "real", f"{bench.name} measures {bench.needs_real_time}"
    try:
        kernels.find()
    except kernels.NoKernel as error:
        return "real", f"{error}. Figures hang on what else this machine does"
    return "virtual", ""


def check_virtual(bench: Bench) -> None:
    """Raises BadInput for a bench that virtual time cannot serve."""
    if not bench.needs_root:
        raise BadInput(f"--time virtual: {bench.name} runs in the simulator, whose time is virtual and whose figures do not depend on the machine; leave it out")
    if bench.needs_real_time:
        raise BadInput(f"--time virtual: {bench.name} measures {bench.needs_real_time}, which costs no time in virtual time; allowed: real")


def _options(given: argparse.Namespace) -> Options:
    return Options(quick=given.quick, prefix=given.prefix, keep_logs=given.keep_logs)


def select(bench: Bench, given: argparse.Namespace) -> list[Case]:
    """The cases that were asked for."""
    from dataclasses import replace

    settings: dict[str, str] = {}
    for word in given.set:
        key, equals, value = word.partition("=")
        if not equals or key not in bench.settings:
            raise BadInput(f"--set {word}: allowed: KEY=VALUE with one of: {', '.join(bench.settings) or 'none, this bench has no settings'}")
        settings[key] = value
    all_cases = bench.cases(given.quick)
    if given.full:
        if given.quick or (every := bench.full_cases()) is None:
            raise BadInput("--full: " + ("not together with --quick" if given.quick else f"{bench.name} always measures all its cases"))
        all_cases = every
    if settings:
        all_cases = bench.configured(all_cases, settings)
    names = [case.name for case in all_cases]
    for word in given.case:
        if not any(word in name for name in names):
            raise BadInput(f"--case {word}: no case of {bench.name} has that in its name; allowed: parts of: {', '.join(names)}")
    # "LIA, 1 poor" is a case, and part of the name of "OLIA, 1 poor": it can be chosen alone.
    cases = [case for case in all_cases if not given.case or any(word == case.name if word in names else word in case.name for word in given.case)]
    if given.arm:
        known = {arm.name for case in cases for arm in case.arms}
        if unknown := [name for name in given.arm if name not in known]:
            raise BadInput(f"--arm {unknown[0]}: allowed: {', '.join(sorted(known))}")
        cases = [replace(case, arms=tuple(arm for arm in case.arms if arm.name in given.arm),
                         goals=tuple(goal for goal in case.goals if {goal.arm, goal.over or goal.arm} <= set(given.arm)))
                 for case in cases if any(arm.name in given.arm for arm in case.arms)]
    return [replace(case, seeds=given.rounds) for case in cases] if given.rounds else cases


class _Interrupt:
    """The first Ctrl-C or SIGTERM ends the running measurement; further ones must not disturb cleaning up and writing."""

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, self._first) for number in signals.that_end()}

    def _first(self, *_: object) -> None:
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def run(bench: Bench, cases: list[Case], given: argparse.Namespace, arguments: list[str]) -> int:
    """Runs, shows, writes, and gives the exit code."""
    try:
        tandemd: str | None = str(system.tandem_binary("tandemd"))
    except LabError:
        tandemd = None
    kernel = machine.requirements() if given.time == "virtual" else None
    head = header.make(arguments, given.seed, given.quick, given.set, tandemd, kernel)
    if head.get("busy_before", 0.0) > 0.1:
        print(f"tandem bench: other programs use {head['busy_before'] * 100:.0f} % of the CPU: expect noise, and CPU and latency figures that "
              "are not Tandem's", file=sys.stderr)
    options = _options(given)
    runs = resume.taken_over(given.resume, bench, cases, given.seed, head) if given.resume else []
    if before := len(table.failures(runs)):
        print(f"tandem bench: {before} failed run{'s' if before > 1 else ''} of {given.resume} count{'' if before > 1 else 's'} as failed; to measure everything "
              "anew leave --resume out", file=sys.stderr)
    interrupted = False
    with _Interrupt():
        with Progress(bench, cases, given.quick, jobs=given.jobs, taken_over=runs) as progress:
            try:
                if kernel:
                    virtual.execute(bench, cases, given.seed, options, runs, progress, given.jobs, arguments)
                elif given.jobs > 1:
                    parallel.execute(bench, cases, given.seed, options, runs, progress, given.jobs, given.lock)
                else:
                    execute(bench, cases, given.seed, options, runs, progress, given.lock)
            except KeyboardInterrupt:
                interrupted = True
        return _conclude(bench, cases, resume.in_order(runs, cases, given.seed), head, given, interrupted)


def _write(bench: Bench, cases: list[Case], runs: list[Run], verdicts: list[Verdict], head: dict[str, Any], given: argparse.Namespace,
           interrupted: bool) -> list[str]:
    """Every result that was asked for, also when another one cannot be written. Gives what could not, with the place and the reason."""
    def as_json() -> None:
        text = report.as_json(report.document(bench, cases, runs, verdicts, head, interrupted))
        if str(given.json) != "-":
            report.write(given.json, text)
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            system.output_unread()
            raise OSError(error.errno, error.strerror, "standard output") from error

    def as_page() -> None:
        report.write(given.markdown, report.as_page(bench, cases, runs, verdicts, head, interrupted))

    def as_pictures() -> None:
        from .plot import draw

        for path in draw(bench, [case for case in cases if not case.parameters.get("pooled")], runs, given.plot):
            print(f"wrote {path}", file=sys.stderr)

    faults: list[str] = []
    for place, write in ((given.json, as_json), (given.markdown, as_page), (given.plot, as_pictures)):
        try:
            if place:
                write()
        except BrokenPipeError:
            raise
        except OSError as error:
            faults.append(f"{str(error.filename or place).removesuffix('.new')}: {error.strerror}")
    return faults


def _conclude(bench: Bench, cases: list[Case], runs: list[Run], head: dict[str, Any], given: argparse.Namespace, interrupted: bool) -> int:
    for done in runs:
        if knobs := done.details.get("knobs"):
            head["knobs"].setdefault(done.arm, knobs)
    for case, pooled in bench.summarise(cases, runs):
        cases = [*cases, case]
        runs = [*runs, *pooled]
    verdicts = [judge(case, goal, runs) for case in cases for goal in case.goals]
    out = sys.stderr if given.json and str(given.json) == "-" else sys.stdout
    print("\n" + table.as_text(*table.result_rows(bench, cases, runs, verdicts)), file=out)
    if details := table.detail_rows(bench, cases, runs):
        print("\n" + table.as_text(*details), file=out)
    failed = table.failures(runs)
    if failed:
        print("\nfailed runs:\n" + "\n".join(f"  {line}" for line in failed), file=out)
    measured = [done for done in runs if not done.details.get("derived")]
    missed = [verdict for verdict in verdicts if not verdict.met]
    undecided = sum(verdict.undecided for verdict in verdicts)
    print(f"\n{len(verdicts) - len(missed)} of {len(verdicts)} goals met" + (f", {undecided} undecided" if undecided else "")
          + f"; {sum(done.error is None for done in measured)} runs done, {len(failed)} failed" + ("; interrupted" if interrupted else ""), file=out)
    unwritten = _write(bench, cases, runs, verdicts, head, given, interrupted)
    for fault in unwritten:
        print(f"tandem bench: {fault}; this result is not written", file=sys.stderr)
    if unwritten:
        return 1
    if interrupted:
        return 130
    if given.check:
        for verdict in missed:
            value = "no result" if verdict.value is None else f"{verdict.value:.4g}"
            print(f"tandem bench: {bench.name}: {verdict.case}: {verdict.metric}: {verdict.goal.sentence}: {value}"
                  + (f" ({verdict.word}, {verdict.note})" if verdict.undecided else ""), file=sys.stderr)
        for line in failed:
            print(f"tandem bench: {bench.name}: run failed: {line}", file=sys.stderr)
        if missed or failed:
            return 1
    return 0 if len(failed) < len(measured) else 1
