"""Runs in which the lab's emulator did not keep time: they measured the machine, not the link. They are discarded and made again. Those in
which the kernel let no send buffer grow are no results either, and would not be the next time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping

from tandem_lab import sockets
from tandem_lab.errors import LabError

from .model import Measurement

HONEST_US = 1000  # how late packets may be released at the 99th percentile
ATTEMPTS = 3


class Late(LabError):
    """The emulator could not keep up during a run."""


def note(allowed_us: float = HONEST_US) -> str:
    """What the notes of a bench say about it."""
    return f"A run in which the emulator released packets more than {allowed_us / 1000:g} ms late (p99) is discarded and made again, at most {ATTEMPTS} times."


def checked(stats: Mapping[str, Any], allowed_us: float = HONEST_US) -> dict[str, float]:
    """Of the emulator's statistics how late packets were released, in us, as details of the run. Raises Late when that is more than `allowed_us` at the 99th percentile,
    LabError when the kernel's memory for TCP was short."""
    if short := memory_is_short():
        raise LabError(short)
    errors = stats["release_error_us"]
    if errors["p99"] > allowed_us:
        raise Late(f"the emulator was late in {ATTEMPTS} attempts: p99 {errors['p99']:.0f} us of {allowed_us:.0f} us allowed; the machine is too busy")
    return {"release_error_p99_us": errors["p99"], "release_error_max_us": errors["max"]}


def memory_is_short(proc: Path = Path("/proc")) -> str:
    """What to say when the kernel lets no send buffer grow (tcp_should_expand_sndbuf() does not from the first mark of tcp_mem on), "" otherwise."""
    try:
        used, mark = sockets.totals(proc)["mem"], int((proc / "sys/net/ipv4/tcp_mem").read_text().split()[0])
    except FileNotFoundError:  # told in the first network namespace only
        return ""
    if used < mark:
        return ""
    return (f"TCP holds {used} pages of memory, and from {mark} on the kernel lets no send buffer grow: senders are slower than their network. End what holds "
            "connections on this machine (ss -tnap), or raise net.ipv4.tcp_mem")


def measured(attempt: Callable[[], Measurement]) -> Measurement:
    """The first attempt in which the emulator kept time; its details say how many were discarded before it. Raises Late when none did."""
    for discarded in range(ATTEMPTS):
        try:
            done = attempt()
            return Measurement(done.values, {**done.details, "discarded_before": discarded})
        except Late:
            if discarded + 1 == ATTEMPTS:
                raise
    raise AssertionError
