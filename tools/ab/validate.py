#!/usr/bin/python3
"""What the statistics of `tandem ab` and the benches are worth: A/A experiments and planted gains over made-up places, as a table.

With --markdown the table becomes a page with commit, seed and command. Needs no root, no network and some seconds.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]

from tandem_ab import calibration, shapes  # noqa: E402
from tandem_common import confidence, provenance  # noqa: E402


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def pairs(number: int | None) -> str:
    return "-" if number is None else str(number)


def main() -> int:
    made = argparse.ArgumentParser(prog="tools/ab/validate.py", description=__doc__)
    made.add_argument("--experiments", type=int, default=2000, metavar="N", help="A/A experiments of each shape (default 2000); gains take a tenth, at least 1000")
    made.add_argument("--pairs", type=int, default=200, metavar="N", help="pairs of an A/A experiment (default 200)")
    made.add_argument("--seed", type=int, default=1, metavar="N")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write the page")
    given = made.parse_args()
    alarms, gains = [], []
    for name, shape in shapes.SHAPES.items():
        told = calibration.false_alarms(shape, given.seed, given.experiments, given.pairs)
        alarms.append([name, f"{told.deviation * 100:.0f} %", f"{told.tossed * 100:.1f} %", f"{told.signs * 100:.1f} %", f"{told.strict * 100:.1f} %"])
        for gain in calibration.GAINS:
            one = calibration.found(shape, gain, given.seed, max(1000, given.experiments // 10), 1000)
            gains.append([name, f"+{gain * 100:.0f} %", pairs(one.half), pairs(one.half_predicted), pairs(one.most), pairs(one.most_predicted),
                          f"{one.covered * 100:.1f} %"])
        print(f"{name}: {alarms[-1][2]} false alarms", file=sys.stderr)
    growing = calibration.false_alarms(shapes.growing, given.seed, given.experiments, given.pairs).tossed
    commit = provenance.commit()
    text = PAGE.format(command=shlex.join(["tools/ab/validate.py", *sys.argv[1:]]), commit=commit["commit"] + (", with uncommitted changes" if commit["dirty"] else ""),
                       seed=given.seed, experiments=f"{given.experiments:,}", pairs=given.pairs, least=confidence.LEAST, growing=f"{growing * 100:.1f}",
                       alarms=table(["place", "one pair differs by", "false alarms", "of the median by signs (benches)", "with strict AB, AB"], alarms),
                       gains=table(["place", "planted", "half found after", "predicted", "80 % found after", "predicted", "interval held it throughout"], gains))
    if given.markdown:
        given.markdown.write_text(text)
    else:
        print(text)
    return 0


PAGE = """\
# ab-statistics

What the anytime-valid statistics of `tandem ab` and the benches (tools/common/tandem_common/confidence.py) say where the truth is known: places made up of blocks of time
(tools/ab/tandem_ab/shapes.py), measured in pairs, looked at after every pair.

- command: {command}
- commit: {commit}
- seed: {seed}

## Nothing there

{experiments} experiments of {pairs} pairs each, off against off. A false alarm is an interval that excluded "no effect" after any of the pairs from the {least}th on; 5 % are allowed.

{alarms}

The last place is disturbed in every other block. Measured in strict order each experiment takes the disturbance for an effect; the coin makes noise of it.

What it does not bear: a disturbance that grows by 3 % with every pair, several hundredfold over the experiment, gives {growing} % false alarms in spite of the coin. The formula
is exact for normal pairs of equal variance, and near it for others while the latest few pairs do not outweigh all before.

## A gain there

Pairs until the interval has left zero behind, and how many were predicted from the noise of 4,000 other pairs of the same place, with the resampling that `tandem ab`
uses. "-": not within the 1,000 pairs measured, or the 4,096 predicted.

{gains}
"""

if __name__ == "__main__":
    sys.exit(main())
