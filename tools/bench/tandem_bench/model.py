"""What a bench is made of: cases x arms x seeds, what a run yields, and goals. No I/O here."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

# Columns of the result table, in order. A bench may rename them (Bench.headings) or have others (Bench.columns); unused ones are left out.
COLUMNS = ("plain", "published", "tandem", "limit")


@dataclass(frozen=True)
class Arm:
    """One way to run a case. `column` is where its median stands in the table; "" = only in the JSON and the plot."""

    name: str
    column: str = ""


@dataclass(frozen=True)
class Goal:
    """What a case must reach: the median over the seeds of metric(arm) / metric(over), or of metric(arm) itself.

    sense       ">=" or "<=" against `bound`
    noise       name of an arm that repeats `over`: the half-width of the confidence interval of the median of noise / over is the
                resolution of this measurement; a ratio that misses the bound by no more than it (and by no more than
                `tolerance_cap`) is met "within the resolution", and said so. Without it, the bound is strict.

    A bound inside the confidence interval of the ratio is "undecided", neither met nor missed; with a noise arm the ratio is met within the
    resolution when its interval ends no further below than `tolerance_cap`. So is what only the failed runs of `arm`, or those without the metric, could turn.
    """

    arm: str
    sense: str
    bound: float
    over: str = ""
    metric: str = ""  # the case's first metric when empty
    noise: str = ""
    tolerance_cap: float = 0.02
    text: str = ""  # shown instead of the generated sentence

    def __post_init__(self) -> None:
        if self.sense not in (">=", "<="):
            raise ValueError(f'goal sense "{self.sense}"; allowed: >=, <=')

    @property
    def sentence(self) -> str:
        what = f"{self.arm} / {self.over}" if self.over else self.arm
        return self.text or f"{what} {self.sense} {self.bound:g}"


@dataclass(frozen=True)
class Metric:
    """A measured quantity that has a row of the table. The first of a case is its main one.

    Commonly a run has one value, and the table shows the median over the runs. A metric with `samples` takes all the values of that list in
    the runs' details, of all rounds together, in one figure: their "median", "mean", "p95", "p99", "sum", "minimum" or "maximum" (`statistic`).
    """

    name: str
    unit: str
    digits: int = 2
    samples: str = ""
    statistic: str = "median"


@dataclass(frozen=True)
class Case:
    """One scenario. `published` is the paper's figure in words, `parameters` is the bench's own."""

    name: str
    arms: tuple[Arm, ...]
    metrics: tuple[Metric, ...]
    seeds: int  # paired rounds
    goals: tuple[Goal, ...] = ()
    published: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)


@dataclass(frozen=True)
class Measurement:
    """What one run of one arm gave: a value per metric, and details that only the JSON keeps."""

    values: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One arm of one case on one seed, done or failed. `order` counts runs from 0 in the order they were made."""

    case: str
    arm: str
    seed: int
    order: int
    seconds: float
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


class Unavailable(Exception):
    """A run cannot be made on this machine or with this build; the text says why. Reported as a failed run."""


class Bench:
    """Derive, fill in the attributes and `measure`, and enter it in catalogue.CATALOGUE."""

    name = ""
    summary = ""
    columns: Sequence[str] = COLUMNS  # of the result table, in order
    headings: Mapping[str, str] = {}  # column -> heading, e.g. {"published": "accept-all"}
    detail_columns: Sequence[tuple[str, str]] = ()  # (key of Measurement.details, heading): medians per arm in a second table
    needs_root = True  # it uses the lab
    needs_real_time = ""  # what it measures that only real time shows, e.g. "CPU"; empty: it may run in virtual time
    parallel = False  # several rounds may run at the same time, each in a lab of its own (--jobs)
    settings: Mapping[str, str] = {}  # --set KEY: help
    notes: Sequence[str] = ()  # what must be known to read the figures; only facts of the set-up, never results

    def cases(self, quick: bool) -> list[Case]:
        raise NotImplementedError

    def full_cases(self) -> list[Case] | None:
        """Every combination (--full); None: cases() already has all there is."""
        return None

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        """The cases with the user's settings (--set) in force. Raises BadInput for a value that is not allowed."""
        return cases

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        """Seconds that one run takes, for the progress bar's first guess."""
        return 10.0

    @contextmanager
    def session(self, case: Case, seed: int, options: "Options") -> Iterator[Any]:
        """What the arms of one round share; handed to measure()."""
        yield None

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: "Options") -> Measurement:
        """One run. Any exception but KeyboardInterrupt becomes a failed run."""
        raise NotImplementedError

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Values of derived arms from one round's measured ones, {arm: {metric: value}}; arms that do not exist are not measured."""
        return {}

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """Further rows of the table over several cases together, each with its runs made from the measured ones."""
        return []

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path] | None:
        """Pictures of the bench's own, written to `directory`; None: the common one, a panel per metric."""
        return None

    def measured_arms(self, case: Case) -> list[Arm]:
        """The arms that are run; the others come from derive()."""
        return list(case.arms)


@dataclass(frozen=True)
class Options:
    """What the user chose, as far as a run needs it."""

    quick: bool = False
    prefix: str = "bench-"
    keep_logs: str = ""  # directory for the logs of failed runs; empty: none
