"""Nothing lost, nothing changed: downloads of known content under losses of every kind, checked byte for byte, until enough losses were repaired."""

from __future__ import annotations

import hashlib
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Mapping

from tandem_lab import Lab
from tandem_lab.api import Download
from tandem_lab.errors import BadInput, LabError

from .. import helpers
from ..daemon_status import of_module
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options
from .mirror import LOSSES

TANDEM = Arm("tandem", "tandem")
REPAIRED = Metric("losses repaired", "", 0, "repaired", "sum")
DOWNLOADS = Metric("downloads", "", 0, "completed", "sum")
BAD = Metric("lost or changed", "", 0, "bad", "sum")
BREACHES = Metric("module faults and violations", "", 0, "breaches", "sum")
METRICS = (REPAIRED, DOWNLOADS, BAD, BREACHES)

STRATEGIES = ("undo", "range", "replay")
SERVERS = ("cubic", "reno", "bbr")
WANTED = 10_000
TIMEOUT = 120.0  # seconds for a download
AT_ONCE = 6


@dataclass(frozen=True)
class Fetch:
    """One download of a batch."""

    size: int
    server: str
    v6: bool
    tls: bool


@dataclass(frozen=True)
class Batch:
    """What happens in one lab, drawn from a seed: the same seed, the same batch."""

    strategy: str
    radio: bool
    loss: str
    scenario: str
    fetches: tuple[Fetch, ...]

    @classmethod
    def drawn(cls, seed: int, count: int) -> "Batch":
        luck = random.Random(f"mirror-losses {seed}")
        # Losses that bring many repairs, and each strategy with each of them over the rounds.
        loss = ("1 %", "3 %", "bursts of 8, 1 %", "3 %", "1 %", "bursts of 3, 0.3 %")[seed % 6]
        rate = luck.choice((20, 50, 100))
        kind = LOSSES[loss]
        wifi = f"gilbert_down = {{ p = {kind[0]:.8f}, r = {kind[1]:.8f} }}\n" if isinstance(kind, tuple) else f"loss_down = {kind}\n"
        if luck.random() < 0.5:
            wifi += f"loss_up = {luck.choice((0.001, 0.01, 0.05))}\n"
        if luck.random() < 0.5:
            wifi += f"frame_error = {luck.choice((0.02, 0.1))}\n"  # repeated frames: damage that is no loss
        if luck.random() < 0.3:
            wifi += 'ecn = "mark"\nthreshold = "8ms"\n'
        text = (f'[scenario]\nname = "bench-mirror-losses"\nduration = "600s"\n[wifi]\nprofile = "wifi-pipe"\nrate_down = "{rate}Mbit"\nrate_up = "{rate}Mbit"\n'
                f'queue = 100000\nqueue_bytes = "{luck.choice((50, 150, 400, 1000))}kB"\n{wifi}[cell]\nprofile = "lte"\nnat = {str(luck.random() < 0.25).lower()}\n'
                f'loss = {luck.choice((0, 0, 0.01))}\n')
        for number, congestion in enumerate(SERVERS, 1):
            text += f'[[server]]\nname = "srv{number}"\ncongestion = "{congestion}"\ndelay = "{luck.choice((5, 10, 25, 50)) + luck.random():.3f}ms"\n'
        for _ in range(luck.randrange(3)):
            text += (f'[[timeline]]\nat = "{luck.random() * 10:.3f}s"\nfor = "{0.2 + luck.random():.3f}s"\nwhat = "blackout"\nmode = "{luck.choice(("drop", "buffer"))}"\n')
        for _ in range(luck.randrange(2)):
            text += f'[[timeline]]\nat = "{luck.random() * 10:.3f}s"\nfor = "{0.5 + 3 * luck.random():.3f}s"\nwhat = "cell_down"\nmode = "drop"\n'
        fetches = tuple(Fetch(int(300_000 * 20 ** luck.random()), f"srv{luck.randrange(3) + 1}", luck.random() < 0.4, luck.random() < 0.2) for _ in range(count))
        return cls(("undo", "range", "undo", "replay")[seed % 4], luck.random() < 0.5, loss, text, fetches)


class MirrorLosses(Bench):
    name = "mirror-losses"
    summary = f"downloads of known content under losses of every kind until {WANTED:_} were repaired: complete, and equal by SHA-256".replace("_", " ")
    parallel = True
    settings = {"only": "number of one download of the batch, from 0: the others are left out", "strategy": ", ".join(STRATEGIES) + ": instead of the one drawn",
                "radio": "no, yes: instead of what was drawn"}
    detail_columns = (("strategy", "strategies"), ("loss", "losses"), ("bytes", "bytes a batch"), ("random_losses", "random losses a batch"), ("queue_drops", "queue drops a batch"),
                      ("longest_s", "longest download, s"), ("reasons", "reasons"))
    notes = (
        "A batch is one lab with three servers (CUBIC, Reno, BBR) and downloads of 300 kB to 6 MB of pseudo-random bytes, "
        f"{AT_ONCE} at a time, two fifths of them by IPv6, a fifth by TLS. Drawn from the seed: strategy, loss behind the bottleneck, rate, queue, RTTs, lost and repeated ACKs and frames, "
        "marks, short blackouts, cellular link with loss, translation and outages.",
        "Repaired: data lost behind the bottleneck's queue that the client acknowledged afterwards, by the emulator's account. What the queue dropped is not counted.",
        "Repeat one batch: --seed SEED --rounds 1; one download of it: also --set only=NUMBER.")

    def cases(self, quick: bool) -> list[Case]:
        wanted = 300 if quick else WANTED
        goals = (Goal(TANDEM.name, ">=", wanted, metric=REPAIRED.name, text=f"at least {wanted:,} losses repaired".replace(",", " ")),
                 Goal(TANDEM.name, "<=", 0, metric=BAD.name, text="nothing lost or changed"),
                 Goal(TANDEM.name, "<=", 0, metric=BREACHES.name, text="no module fault, no violation"))
        return [Case("losses of every kind", (TANDEM,), METRICS, 3 if quick else 20, goals, "", {"count": 10 if quick else 30})]

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        for key, text in settings.items():
            allowed = {"only": text.isdigit(), "strategy": text in STRATEGIES, "radio": text in ("no", "yes")}[key]
            if not allowed:
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}")
        return [replace(case, parameters={**case.parameters, **settings}) for case in cases]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 10.0 if quick else 25.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        given = case.parameters
        batch = Batch.drawn(seed, given["count"])
        strategy = given.get("strategy", batch.strategy)
        radio = {"yes": True, "no": False}.get(given.get("radio", ""), batch.radio)
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(batch.scenario, seed=seed, prefix=options.prefix, counters=False))
            config: dict[str, Any] = {"modules": {"mirror": {"strategy": strategy}}}
            if radio:
                config["links"] = {"radio": f"lab:{lab.directory / 'frames.sock'}"}
            daemon = stack.enter_context(helpers.tandem(lab, options, ["mirror"], config, f"{self.name}-{seed}"))
            wanted = [number for number in range(len(batch.fetches)) if str(number) == given.get("only", str(number))]
            sums: dict[int, str] = {}
            for number in wanted:
                content = random.Random(f"{seed} {number}").randbytes(batch.fetches[number].size)
                sums[number] = hashlib.sha256(content).hexdigest()
                lab.add_file(f"f{number}", content)
            records = self._fetch(lab, batch, wanted, sums)
            if daemon.process and daemon.process.poll() is not None:
                raise LabError(f"tandemd ended with code {daemon.process.returncode}: {daemon.log.read_text().strip()[-1000:]}")
            status = of_module(daemon.api("/v1/status"), "mirror")
            helpers.whole(lab)
            lost = [loss for loss in lab.losses() if loss.down and loss.link == "wifi"]
            repairs = lab.repairs()
            repaired = sum(repair.reason == "loss" for repair in repairs)
        bad = [record for record in records if record["bad"]]
        breaches = status["violations"] + status["faults"]
        details = {
            REPAIRED.samples: [repaired], DOWNLOADS.samples: [len(records) - len(bad)], BAD.samples: [len(bad)], BREACHES.samples: [breaches],
            "repaired_drops": len(repairs) - repaired, "strategy": strategy, "loss": batch.loss, "radio": radio, "bytes": sum(record["size"] for record in records),
            "random_losses": sum(loss.reason == "loss" for loss in lost), "queue_drops": sum(loss.reason == "queue_full" for loss in lost),
            "longest_s": max((record["seconds"] for record in records), default=0.0), "records": records, **status,
            "repeat": f"--seed {seed} --rounds 1" + (f" --set only={bad[0]['number']}" if bad else "")}
        return Measurement({REPAIRED.name: repaired, DOWNLOADS.name: len(records) - len(bad), BAD.name: len(bad), BREACHES.name: breaches}, details)

    @staticmethod
    def _fetch(lab: Lab, batch: Batch, wanted: list[int], sums: Mapping[int, str]) -> list[dict[str, Any]]:
        """Keeps AT_ONCE of them under way, and tells how each ended."""
        waiting = list(wanted)
        running: list[tuple[int, Download]] = []
        records: list[dict[str, Any]] = []
        lab.start_timeline()
        try:
            while waiting or running:
                while waiting and len(running) < AT_ONCE:
                    fetch = batch.fetches[waiting[0]]
                    running.append((waiting[0], lab.start_download(f"f{waiting[0]}", server=fetch.server, v6=fetch.v6, tls=fetch.tls, sha256=True,
                                                                   interval=1.0, timeout=TIMEOUT)))
                    waiting.pop(0)
                over = [entry for entry in running if not entry[1].running()]
                if not over:
                    time.sleep(0.02)
                    continue
                number, download = over[0]
                running.remove(over[0])
                fetch, result = batch.fetches[number], download.wait()
                why = result.error or ("" if result.sha256 == sums[number] else "other bytes than the server has (SHA-256)")
                records.append({"number": number, "size": fetch.size, "server": fetch.server, "v6": fetch.v6, "tls": fetch.tls,
                                "seconds": round(result.seconds, 3), "bytes": result.bytes, "bad": why})
        finally:
            for _, download in running:
                if download.running():
                    download.stop()
        return records


BENCH = MirrorLosses()
