"""Goes on where an earlier run of the same bench ended (--resume): what it measured is taken over, not measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab.errors import BadInput, LabError

from .model import Bench, Case, Run
from .runner import rounds

# What must be equal, or the figures are of different things: key of the header, and what it is called.
SAME = (("commit", "commit"), ("time", "time"), ("kernel", "kernel"), ("cpu", "cpu"), ("quick", "--quick"), ("settings", "--set"), ("versions", "versions"))


def taken_over(path: Path, bench: Bench, cases: Sequence[Case], first_seed: int, head: Mapping[str, Any]) -> list[Run]:
    """The runs of the rounds of this plan that the file (--json of the earlier run) has whole: every arm, no other arm with them, since arms of a
    round follow each other in one lab. One that failed was measured, too: tried again until it does not, it would count for nothing. Raises LabError for a
    file that cannot be read, BadInput for one of something else."""
    content = _read(path)
    if content["bench"] != bench.name:
        raise BadInput(f"--resume {path}: of the bench {content['bench']}, not of {bench.name}")
    for key, words in SAME:
        before, now = content["header"].get(key), head.get(key)
        if before != now:
            raise BadInput(f"--resume {path}: {words} was {_shown(before)} and is {_shown(now)} now, so its figures are of something else; leave --resume out")
    if head.get("dirty") or content["header"].get("dirty"):
        raise BadInput(f"--resume {path}: measured or to be measured with uncommitted changes, which may differ; commit them and measure anew")
    made = _runs(content["runs"])
    kept: list[Run] = []
    for case, _, seed in rounds(cases, first_seed):
        there = made.get((case.name, seed), [])
        arms = {run.arm for run in there if not run.details.get("derived")}
        if arms == {arm.name for arm in bench.measured_arms(case)}:
            kept += there
    return kept


def in_order(runs: Sequence[Run], cases: Sequence[Case], first_seed: int) -> list[Run]:
    """Runs in the order of the plan, as one run without --resume has them."""
    places = {(case.name, seed): place for place, (case, _, seed) in enumerate(rounds(cases, first_seed))}
    ordered = sorted(runs, key=lambda run: places[(run.case, run.seed)])
    return [replace(run, order=place) for place, run in enumerate(ordered)]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
        content["bench"], content["header"].keys(), [entry["case"] for entry in content["runs"]]
    except OSError as error:
        raise LabError(f"--resume {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"--resume {path}: not what a bench wrote with --json ({type(error).__name__}: {error})") from error
    return content


def _runs(entries: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], list[Run]]:
    """The runs of each round from the file's entries, one entry per metric."""
    found: dict[tuple[str, int, str], Run] = {}
    for entry in entries:
        key = (entry["case"], entry["seed"], entry["arm"])
        run = found.setdefault(key, Run(entry["case"], entry["arm"], entry["seed"], entry["order"], entry["seconds"], {}, entry.get("details", {}), entry.get("error")))
        if "metric" in entry:
            value = entry["value"]  # "inf" and "nan" are written as text
            found[key] = replace(run, values={**run.values, entry["metric"]: float(value) if isinstance(value, str) else value})
    of_round: dict[tuple[str, int], list[Run]] = {}
    for (case, seed, _), run in found.items():
        of_round.setdefault((case, seed), []).append(run)
    return of_round


def _shown(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, str) else value or "unknown"
