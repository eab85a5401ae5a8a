"""Picture of the bench estimator: estimate and truth over time, as figure 5 of Croitoru et al., and how the errors are distributed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Sequence

from tandem_common.picture import drawing

from .model import Bench, Case, Run
from .plot import COLOURS, save

SHOWN = (("whole frames", COLOURS["published"]), ("with damaged frames", COLOURS["tandem"]))


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
    pyplot = drawing()

    done = [run for run in runs if run.error is None and run.details.get("series")]
    timed = next((case for case in cases if "step" in case.name and any(run.case == case.name for run in done)), None)
    judged = [case for case in cases if "air" in case.parameters and not case.name.startswith("packet time") and any(run.case == case.name for run in done)]
    if not judged:
        return []
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(10, 8.5), constrained_layout=True)
    if timed is None:
        timed = judged[0]
    of_first_seed = [run for run in done if run.case == timed.name and run.seed == min(other.seed for other in done if other.case == timed.name)]
    for number, (arm, colour) in enumerate(SHOWN):
        run = next((run for run in of_first_seed if run.arm == arm), None)
        if run is None:
            continue
        series = run.details["series"]
        if number == 0:
            above.plot([at for at, _, _ in series], [truth for _, _, truth in series], color="black", linewidth=1.4, label="sniffer at the access point")
        above.plot([at for at, _, _ in series], [found for _, found, _ in series], ".", color=colour, markersize=4, label=f"client, {arm}")
    above.set_title(timed.name, fontsize=9)
    above.set_xlabel("time, s")
    above.set_ylabel("delivery probability")
    above.set_ylim(0, 1.02)
    above.grid(alpha=0.3)
    above.legend(fontsize=8, frameon=False, loc="lower right")

    from matplotlib import colormaps

    for number, case in enumerate(judged):
        errors = sorted(100 * abs(found - truth) for run in done if run.case == case.name and run.arm == "whole frames" for _, found, truth in run.details["series"])
        if errors:
            below.plot(errors, [(i + 1) / len(errors) for i in range(len(errors))], color=colormaps["tab20"](number % 20), linewidth=1.2, label=case.name)
    below.axvline(2, color="black", linestyle="--", linewidth=0.8)
    below.set_xscale("symlog", linthresh=1)
    below.set_xlim(0, 60)
    below.set_xticks([0, 0.5, 1, 2, 5, 10, 20, 50], ["0", "0.5", "1", "2", "5", "10", "20", "50"])
    below.set_ylim(0, 1)
    below.set_title("errors of the windows, whole frames", fontsize=9)
    below.set_xlabel("difference from the sniffer, points")
    below.set_ylabel("share of windows below")
    below.grid(alpha=0.3)
    below.legend(fontsize=7, frameon=False, loc="lower right")
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", 110)), fontsize=10)
    return save(figure, directory, bench.name)
