"""Several rounds at the same time, each in a lab and a process of its own: for benches that mostly wait."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any, Sequence

from .model import Case, Bench, Options, Run
from .runner import Listener, measure_round, rounds, turn

_PR_SET_PDEATHSIG = 1


def prefix_of(prefix: str, number: int) -> str:
    """The prefix of the lab of a worker: "bench-" gives "bench1-"."""
    return f"{prefix.removesuffix('-')}{number}-"


def execute(bench: Bench, cases: Sequence[Case], first_seed: int, options: Options, runs: list[Run], listen: Listener, jobs: int,
            lock: str = "") -> None:
    """As runner.execute(), `jobs` rounds at a time. The arms of a round follow each other in one process: what is paired shares its neighbours."""
    plan = rounds(cases, first_seed)
    context = multiprocessing.get_context("fork")
    taken = context.Value("i", 0)
    workers: dict[Connection, Any] = {}
    for number in range(1, min(jobs, len(plan)) + 1):
        near, far = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(bench, plan, taken, replace(options, prefix=prefix_of(options.prefix, number)), far, lock))
        worker.start()
        far.close()
        workers[near] = worker
    under_way: dict[Connection, tuple[int, list[str]]] = {}  # worker -> its round and the arms still missing
    try:
        open_ends = list(workers)
        while open_ends:
            for end in wait(open_ends):
                assert isinstance(end, Connection)
                try:
                    what, index, arm_name, run = end.recv()
                except EOFError:
                    open_ends.remove(end)
                    for run in _lost(bench, plan, under_way.pop(end, None), workers[end]):
                        _keep(run, plan, runs, listen)
                    continue
                case = plan[index][0]
                if what == "round":
                    under_way[end] = (index, [arm.name for arm in bench.measured_arms(case)])
                elif what == "over":
                    under_way.pop(end)
                elif what == "begin":
                    listen("begin", case, case.arm(arm_name), None)
                elif what == "derived":
                    runs.append(replace(run, order=len(runs)))
                else:
                    under_way[end][1].remove(arm_name)
                    _keep(run, plan, runs, listen)
        for worker in workers.values():
            worker.join()
    finally:
        for worker in workers.values():
            if worker.is_alive():
                worker.terminate()  # it takes its lab down
        for worker in workers.values():
            worker.join()


def _keep(run: Run, plan: Sequence[tuple[Case, int, int]], runs: list[Run], listen: Listener) -> None:
    case = next(entry for entry, _, _ in plan if entry.name == run.case)
    runs.append(replace(run, order=len(runs)))
    listen("end", case, case.arm(run.arm), runs[-1])


def _lost(bench: Bench, plan: Sequence[tuple[Case, int, int]], left: tuple[int, list[str]] | None, worker: Any) -> list[Run]:
    """Failed runs for what a worker that ended in the middle of a round did not bring."""
    if left is None:
        return []
    worker.join()
    case, _, seed = plan[left[0]]
    return [Run(case.name, name, seed, 0, 0.0, error=f"the process that measured it ended with code {worker.exitcode}") for name in left[1]]


def _work(bench: Bench, plan: Sequence[tuple[Case, int, int]], taken: Any, options: Options, end: Connection, lock: str) -> None:
    """A worker's life: takes rounds until none is left."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return
    try:
        while True:
            with taken.get_lock():
                index = taken.value
                taken.value += 1
            if index >= len(plan):
                return
            case, number, seed = plan[index]
            end.send(("round", index, "", None))
            with turn(lock):
                for run in measure_round(bench, case, number, seed, options,
                                         lambda what, _case, arm, run: end.send((what, index, arm.name, run))):
                    if run.details.get("derived"):
                        end.send(("derived", index, run.arm, run))
            end.send(("over", index, "", None))
    except KeyboardInterrupt:
        pass  # the parent reports
    finally:
        end.close()
