"""Command line of `tandem sim`."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any, Iterable, Sequence

from tandem_common import provenance

from . import program as programs
from .program import BadSweep, SimError
from .sweep import ALONE, SCENARIOS, check_settings, default_jobs, execute, load, named, value_of, values_of
from .table import Table

USAGE = """\
usage: tandem sim SCENARIO [options]     one run, as JSON: grid, uplink, many, single, run FILE,
                                         slots, rtts, visits, users, switching, handoff
       tandem sim sweep SWEEP [options]  many runs into one table
       tandem sim list                   the sweeps that come along

`tandem sim SCENARIO --help` and `tandem sim sweep --help` tell more; docs/sim.md has the whole."""


def _settings(**given: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Each setting of the command line with its option and value. What is said twice is refused: nobody could tell from the table which one counted."""
    found: dict[str, tuple[str, str]] = {}
    for option, texts in given.items():
        for text in texts:
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise BadSweep(f"--{option} {text}: KEY=VALUE is needed")
            if key in found:
                raise BadSweep(f"--{option} {text}: --{found[key][0]} {key}={found[key][1]} says otherwise; one of them is needed")
            found[key] = (option, value)
    return found


def summary(rows: Iterable[dict[str, Any]], column: str, by: Sequence[str]) -> str:
    """Mean, median and extremes of a column, for each combination of the columns in `by`."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        for name in (column, *by):
            if name not in row:
                raise BadSweep(f"the table has no column {name}")
        if isinstance(row[column], (int, float)):
            groups.setdefault(tuple(row[name] for name in by), []).append(float(row[column]))
    lines = [" | ".join(["", *by, "runs", f"mean {column}", "median", "least", "most", ""]).strip(), "|" + "---|" * (len(by) + 5)]
    for group, values in sorted(groups.items(), key=lambda entry: [str(part) for part in entry[0]]):
        numbers = (statistics.mean(values), statistics.median(values), min(values), max(values))
        lines.append("| " + " | ".join([*map(str, group), str(len(values)), *(f"{number:.3g}" for number in numbers)]) + " |")
    return "\n".join(lines)


def sweep(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tandem sim sweep", description="Runs every combination of the settings on all cores. Interrupted (even by "
                                     "kill -9), the same command goes on where it was.")
    parser.add_argument("sweep", help="a TOML file, one of `tandem sim list`, or a scenario: " + ", ".join(SCENARIOS[:-1]))
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=V,V..", help="values of a setting, like t1=1..6 or cc=lia,olia")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every run")
    parser.add_argument("--seeds", type=int, help="run each combination with seeds 1 to this many")
    parser.add_argument("--out", type=Path, default=Path("sim.db"), help="SQLite file, table `runs` (default %(default)s)")
    parser.add_argument("--csv", type=Path, help="write the rows of this sweep as CSV, too")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="runs at a time (default %(default)s)")
    parser.add_argument("--summary", metavar="COLUMN", help="print mean, median, least and most of a column at the end, like share")
    parser.add_argument("--by", default="", metavar="COLUMN,..", help="with --summary: for each combination of these")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        raise BadSweep(f"--jobs {options.jobs}: at least 1 is needed")
    if options.seeds is not None and options.seeds < 1:
        raise BadSweep(f"--seeds {options.seeds}: at least 1 is needed")
    if options.csv and not os.access(options.csv.parent, os.W_OK):
        raise BadSweep(f"--csv {options.csv}: there is no directory {options.csv.parent} that can be written to")
    blocks = load(options.sweep)
    seeds = [f"seed=1..{options.seeds}"] if options.seeds else []
    for key, (option, value) in _settings(set=options.set, vary=options.vary, seeds=seeds).items():
        for block in blocks:
            block.fix.pop(key, None)
            block.vary.pop(key, None)
            if option == "set":
                block.fix[key] = value_of(value)
            else:
                block.vary[key] = values_of(value, f"--{option} {key}")
    check_settings(blocks, programs.find())
    table = Table(options.out)
    table.about({"commit": provenance.commit()["commit"], "command": shlex.join(["tandem", "sim", "sweep", *arguments]), "kernel": platform.release(),
                 "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "program": programs.fingerprint(programs.find())})
    try:
        keys, failed = execute(blocks, table, options.jobs)
        if options.csv:
            table.write_csv(options.csv, keys)
        if options.summary:
            print(summary(table.rows(keys), options.summary, [name for name in options.by.split(",") if name]))
    finally:
        table.close()
    if failed:
        print(f"tandem sim: {len(failed)} of {len(keys)} runs failed; the same command tries them again", file=sys.stderr)
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    """Exit codes: 0 good, 1 failure, 2 wrong usage."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    try:
        if arguments[0] == "list":
            for name, path in named().items():
                print(f"{name:14} {path.read_text().splitlines()[0].lstrip('# ')}")
            return 0
        if arguments[0] == "sweep":
            return sweep(arguments[1:])
        if arguments[0] in SCENARIOS + ALONE:
            program = programs.find()
            os.execv(program, [str(program), *arguments])
        raise BadSweep(f"{arguments[0]}: not one of: sweep, list, {', '.join(SCENARIOS + ALONE)}")
    except BadSweep as error:
        print(f"tandem sim: {error}", file=sys.stderr)
        return 2
    except SimError as error:
        print(f"tandem sim: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tandem sim: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
