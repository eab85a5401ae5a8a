"""What is measured in a block of time: each one begins with fresh connections, and says whether its figure counts."""

from __future__ import annotations

import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence
from urllib.parse import urlsplit

from tandem_common.errors import BadInput, Failure

PIECE = 1 << 18
ANSWER_S = 2.0  # from the name to the first byte of an answer, over a slow link
MOST_A_SECOND = 5  # downloads: beyond it connections are measured, not the rate


@dataclass(frozen=True)
class Outcome:
    """One block. `reason` says why it was not whole and must not count; empty: it counts. `reference` is what must be equal in all blocks."""

    figure: float
    bytes: int
    seconds: float
    reason: str = ""
    reference: Mapping[str, Any] = field(default_factory=dict)
    downloads: int = 1
    beside: Mapping[str, Any] = field(default_factory=dict)  # what else is worth a column
    connections: Sequence[str] = ()  # its own, by their local ends as the daemon writes them; none: not known


class Workload:
    """`describe` is what the experiment is known by; equal descriptions make comparable pairs."""

    unit = "Mb/s"
    smaller_is_better = False
    seconds: float | None = None  # of a block; None: as long as it takes

    def describe(self) -> dict[str, Any]:
        raise NotImplementedError

    def run(self) -> Outcome:
        """Raises KeyboardInterrupt through; no child is left behind."""
        raise NotImplementedError


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    started: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            started.setdefault(int(entry.read_text().rpartition(")")[2].split()[1]), []).append(int(entry.parent.name))
        except OSError:
            continue  # it has just ended
    found = [pid]
    for one in found:
        found += started.get(one, [])
    return found[1:]


def kill(process: subprocess.Popen) -> None:
    """With all that it has started: a shell's programs would go on, and hold up what waits for their output."""
    below = _below(process.pid)
    process.kill()
    for pid in below:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def need(tool: str) -> str:
    if path := shutil.which(tool):
        return path
    raise Failure(f"{tool}: not found; install it: apt-get install {tool}")


def checked_url(name: str, url: str) -> str:
    """Raises BadInput for what curl would take for a file, an option or another protocol."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # half a pair of brackets
        good = False
    if not good:
        raise BadInput(f"{name} {url}: allowed: http://... or https://...")
    return url


def _last_jsons(text: str) -> tuple[list[dict[str, Any]], str]:
    """The JSON objects in a text, and what stands before the first."""
    found: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    place, before = 0, text
    while (start := text.find("{", place)) >= 0:
        try:
            value, place = decoder.raw_decode(text, start)
        except ValueError:
            place = start + 1
            continue
        if not found:
            before = text[:start]
        found.append(value)
    return found, before


def fault_of(told: Mapping[str, Any], words: str, cut_is_fine: bool) -> str:
    """Why an answer that curl told of (its --write-out %{json}) was not whole; empty when it was. `cut_is_fine`: the time was over, as meant."""
    code = int(told.get("http_code") or 0)
    host = urlsplit(str(told.get("url_effective") or told.get("url") or "")).netloc
    if code in (429, 503, 509):
        return f"{host} throttles: HTTP {code}"
    if code >= 400 or 0 < code < 200 or 300 <= code < 400:
        return f"{host} answered HTTP {code}"
    exit_code = int(told.get("exitcode") or 0)
    if exit_code == 28 and cut_is_fine and code:
        return ""
    if exit_code:
        said = str(told.get("errormsg") or "").strip() or words.strip().removeprefix("curl: ")
        return f"curl: {said or f'exit code {exit_code}'}"
    return ""


def local_end(told: Mapping[str, Any]) -> str:
    """Of the latest connection that curl told of, as /v1/flows has it; empty: it had none."""
    address, port = str(told.get("local_ip") or ""), int(told.get("local_port") or 0)
    return "" if not address or not port else f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Download(Workload):
    """A download for a time, by curl. One that ends before the time is over begins again, on another connection."""

    def __init__(self, url: str, warm_up: float, measured: float):
        self._url, self._warm_up, self._measured = checked_url("--url", url), warm_up, measured
        self._curl = need("curl")
        self.seconds = warm_up + measured

    def describe(self) -> dict[str, Any]:
        return {"kind": "download", "url": self._url}

    def run(self) -> Outcome:
        began = time.monotonic()
        opened, end = began + self._warm_up, began + self._warm_up + self._measured
        counted = before = downloads = 0
        reference: dict[str, Any] = {}
        ends: list[str] = []
        while (left := end - time.monotonic()) > 0.01:
            downloads += 1
            early, here, fault, seen, end_here = self._once(left, opened)
            ends += [end_here] if end_here else []
            before += early
            counted += here
            if seen.pop("unanswered", False) and reference and left < ANSWER_S:
                break  # begun again so shortly before the end that no answer could come
            if not fault and reference and seen != reference:
                fault = "the file changed meanwhile"
            reference = seen
            if fault:
                return Outcome(0.0, counted, self._measured, fault, reference, downloads)
            if downloads > MOST_A_SECOND * self.seconds + 1:
                return Outcome(0.0, counted, self._measured, "the file is too small to measure a rate with; --requests measures small ones", reference, downloads)
        if counted == 0:
            return Outcome(0.0, 0, self._measured, f"not a byte in {self._measured:g} s", reference, downloads)
        beside = {"warm_up_mbps": before * 8e-6 / self._warm_up} if self._warm_up else {}
        return Outcome(counted * 8e-6 / self._measured, counted, self._measured, "", reference, downloads, beside, ends)

    def _once(self, left: float, opened: float) -> tuple[int, int, str, dict[str, Any], str]:
        """Bytes that came before and from `opened` on, what was wrong, what the answer is known by (which host, what length), and its connection's local end."""
        argv = [self._curl, "-sSg", "-L", "--max-time", f"{left:.3f}", "-w", "%{stderr}%{json}%{header_json}", "-o", "-", self._url]
        early = counted = 0
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                assert process.stdout and process.stderr
                place = process.stdout.fileno()
                while piece := os.read(place, PIECE):
                    if time.monotonic() >= opened:
                        counted += len(piece)
                    else:
                        early += len(piece)
                words = process.stderr.read().decode(errors="replace")
            except BaseException:
                process.kill()
                raise
        told, before = _last_jsons(words)
        if not told:
            return early, counted, f"curl: {before.strip() or f'exit code {process.returncode}'}", {}, ""
        head = {name.lower(): value[-1] for name, value in told[1].items() if isinstance(value, list)} if len(told) > 1 else {}
        fault = fault_of(told[0], before, cut_is_fine=True)
        late = {"unanswered": True} if fault and told[0].get("exitcode") == 28 else {}
        return early, counted, fault, {"from": urlsplit(str(told[0].get("url_effective"))).netloc, "length": head.get("content-length")} | late, local_end(told[0])


class Upload(Workload):
    """Random bytes for a time, by PUT. What is counted has been taken by the sender's TCP."""

    def __init__(self, url: str, warm_up: float, measured: float):
        self._url, self._warm_up, self._measured = checked_url("--upload", url), warm_up, measured
        self._curl = need("curl")
        self.seconds = warm_up + measured

    def describe(self) -> dict[str, Any]:
        return {"kind": "upload", "url": self._url}

    def run(self) -> Outcome:
        began = time.monotonic()
        opened, end = began + self._warm_up, began + self._warm_up + self._measured
        argv = [self._curl, "-sSg", "-T", "-", "-H", "Expect:", "--max-time", f"{self.seconds + 1:.3f}", "-w", "%{stderr}%{json}", "-o", os.devnull, self._url]
        counted, ended_early = 0, False
        piece = os.urandom(PIECE)
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                assert process.stdin and process.stderr
                place = process.stdin.fileno()
                os.set_blocking(place, False)
                while (now := time.monotonic()) < end:
                    if process.poll() is not None:
                        ended_early = True
                        break
                    if select.select([], [place], [], min(0.1, end - now))[1]:
                        written = os.write(place, piece)
                        counted += written if now >= opened else 0
            except (BrokenPipeError, ConnectionResetError):
                ended_early = True
            except BaseException:
                process.kill()
                raise
            if not ended_early:
                process.terminate()
            words = process.stderr.read().decode(errors="replace")
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
        told, before = _last_jsons(words)
        fault = fault_of(told[0], before, cut_is_fine=True) if told else before.strip() if ended_early else ""
        if ended_early and not fault:
            fault = "the server ended the upload before its time"
        if not counted and not fault:
            fault = f"not a byte taken in {self._measured:g} s"
        ends = [end_here] if told and (end_here := local_end(told[0])) else []
        return Outcome(counted * 8e-6 / self._measured, counted, self._measured, fault, {"from": self._url}, connections=ends)


class Requests(Workload):
    """So many requests one after the other, each on a connection of its own, the addresses in turn. The figure is the mean time of one."""

    unit = "ms"
    smaller_is_better = True
    longest = 30.0

    def __init__(self, urls: Sequence[str], number: int):
        self._urls, self._number = [checked_url("--url", url) for url in urls], number
        self._curl = need("curl")

    def describe(self) -> dict[str, Any]:
        return {"kind": "requests", "urls": list(self._urls), "number": self._number}

    def run(self) -> Outcome:
        wanted = [self._urls[place % len(self._urls)] for place in range(self._number)]
        argv = [self._curl, "-sSg", "-L", "--http1.1", "-H", "Connection: close", "--max-time", f"{self.longest:g}", "-w", "%{json}\n"]
        for url in wanted:
            argv += ["-o", os.devnull, url]
        began = time.monotonic()
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                out, words = process.communicate()
            except BaseException:
                process.kill()
                raise
        told, _ = _last_jsons(out)
        faults = [fault for one in told if (fault := fault_of(one, words, cut_is_fine=False))]
        if not faults and len(told) < len(wanted):
            faults = [f"curl: {words.strip() or 'it ended early'}"]
        times = [float(one["time_total"]) for one in told]
        got = int(sum(one.get("size_download", 0) for one in told))
        reference = {"total": got}
        figure = sum(times) / len(times) * 1000 if times else 0.0
        return Outcome(figure, got, time.monotonic() - began, faults[0] if faults else "", reference, len(told), connections=[end for one in told if (end := local_end(one))])


class Command(Workload):
    """Any command; of iperf3 with -J the rate, else the first group of --figure in its output, or with --figure time how long it takes."""

    def __init__(self, argv: Sequence[str], figure: str, smaller: bool):
        self._argv, self._figure = list(argv), figure
        self._iperf = os.path.basename(argv[0]) == "iperf3" and not figure
        if self._iperf and not {"-J", "--json"} & set(argv):
            raise BadInput("iperf3 without -J: add it, so that its figure can be read, or name one with --figure")
        if not self._iperf and not figure:
            raise BadInput("--figure: which number of the command's output counts? a regular expression with one group is needed, or \"time\"")
        if figure and figure != "time":
            try:
                groups = re.compile(figure).groups
            except re.error as error:
                raise BadInput(f"--figure {figure}: {error}") from error
            if groups != 1:
                raise BadInput(f"--figure {figure}: exactly one group is needed, around the number; it has {groups}")
        if not shutil.which(argv[0]):
            raise BadInput(f"{argv[0]}: no such command")
        self.smaller_is_better = smaller or figure == "time"
        self.unit = "Mb/s" if self._iperf else "s" if figure == "time" else ""

    def describe(self) -> dict[str, Any]:
        return {"kind": "command", "argv": self._argv, "figure": self._figure, "smaller_is_better": self.smaller_is_better}

    def run(self) -> Outcome:
        began = time.monotonic()
        with subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace") as process:
            try:
                out, words = process.communicate()
            except BaseException:
                kill(process)
                raise
        took = time.monotonic() - began
        if self._iperf:
            return iperf_outcome(out, words, took)
        if process.returncode != 0:
            last = (words.strip() or out.strip()).splitlines()[-1:] or [""]
            return Outcome(0.0, 0, took, f"{self._argv[0]}: exit code {process.returncode}: {last[0]}".removesuffix(": "))
        if self._figure == "time":
            return Outcome(took, 0, took)
        match = re.search(self._figure, out) or re.search(self._figure, words)
        try:
            value = float(match[1]) if match else 0.0
        except (ValueError, TypeError):
            value = 0.0
        return Outcome(value, 0, took, "" if 0 < value < math.inf else f"no positive number for --figure {self._figure} in the output of {self._argv[0]}")


def iperf_outcome(out: str, words: str, took: float) -> Outcome:
    """Of iperf3 -J: the rate that the receiver saw."""
    try:
        told = json.loads(out)
    except ValueError:
        return Outcome(0.0, 0, took, f"iperf3: {words.strip() or 'no JSON in its output'}")
    if told.get("error"):
        return Outcome(0.0, 0, took, f"iperf3: {told['error']}")
    end = told.get("end", {})
    one = end.get("sum_received") or end.get("sum") or {}
    rate = float(one.get("bits_per_second", 0.0)) / 1e6
    return Outcome(rate, int(one.get("bytes", 0)), float(one.get("seconds", took)), "" if rate > 0 else "iperf3: nothing was received")
