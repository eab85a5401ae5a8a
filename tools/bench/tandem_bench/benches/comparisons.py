"""What it costs a long download that modules are compared while it runs, as the package is shipped: without comparisons and with them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tandem_lab import Lab

from .. import helpers, lateness
from ..daemon_status import of_all
from ..model import Arm, Bench, Case, Goal, Measurement, Options
from .together import GOODPUT, MODULES, PLAIN, WORST, Cell, one_download

NEVER, SHIPPED = Arm("all, never compared", "published"), Arm("all, as shipped", "tandem")
SHARE = {NEVER: 0.0, SHIPPED: 0.05}  # evidence.share; the default is 0.05 (docs/evidence.md)

SECONDS, QUICK_SECONDS = 60.0, 30.0
ROUNDS = 8
CELLS = (Cell("0.3 % loss", 50, "cubic", "a", SECONDS), Cell("0.3 % loss", 20, "reno", "g", SECONDS), Cell("no loss", 50, "cubic", "g", SECONDS))


class Comparisons(Bench):
    name = "comparisons"
    summary = "long downloads without Tandem, with every module, and with every module as shipped: compared while they run"
    parallel = True
    columns = ("plain", "published", "tandem")
    headings = {"published": NEVER.name, "tandem": SHIPPED.name}
    detail_columns = (("done", "comparisons done"), ("given_up", "given up"), ("undone", "undone by the server"), ("faults", "module faults"), ("violations", "violations"))
    notes = (
        f"One download of {SECONDS:g} s over the lab's 802.11 air with LTE beside it, all modules on. Cell names are those of `tandem bench together`.",
        "Never compared: evidence.share = 0, as in every other bench. As shipped: 0.05, from a memory that knows nothing yet, which is when comparisons are most frequent. A comparison leaves a module, or all that "
        "may be compared within a download, out for a stretch.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        cells, rounds = ([replace(CELLS[0], seconds=QUICK_SECONDS)], 2) if quick else (CELLS, ROUNDS)
        goals = (Goal(SHIPPED.name, ">=", 0.97, over=NEVER.name), Goal(SHIPPED.name, ">=", 1.0, over=PLAIN.name),
                 Goal(SHIPPED.name, ">=", 0.9, over=NEVER.name, metric=WORST.name, text="worst run: as shipped / never compared >= 0.9"))
        return [Case(cell.name, (PLAIN, NEVER, SHIPPED), (GOODPUT, WORST), rounds, goals, parameters={"cell": cell}) for cell in cells]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["cell"].seconds + 1.8

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(cell.scenario(), seed=seed, prefix=options.prefix))
            daemon = None
            if arm in SHARE:
                daemon = stack.enter_context(helpers.tandem(lab, options, MODULES, {"evidence": {"share": SHARE[arm], "paths": arm == SHIPPED}}, f"{case.name}-{arm.name}-{seed}"))
            goodput, details = one_download(lab, cell.seconds)
            if daemon is not None:
                status = daemon.api("/v1/status")
                details |= of_all(status) | {key: status["evidence"]["comparisons"][key] for key in ("done", "given_up")}
        return Measurement({GOODPUT.name: goodput}, details)


BENCH = Comparisons()
