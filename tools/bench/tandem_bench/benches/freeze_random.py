"""Nothing lost, nothing changed: downloads of known content through random blackouts, checked byte for byte."""

from __future__ import annotations

import hashlib
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Mapping

from tandem_lab import Lab
from tandem_lab.errors import BadInput, LabError

from .. import helpers
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options
from .freeze import from_status

TANDEM = Arm("tandem", "tandem")
DOWNLOADS = Metric("downloads", "", 0, "completed", "sum")
BAD = Metric("lost or changed", "", 0, "bad", "sum")
BREACHES = Metric("module faults and violations", "", 0, "breaches", "sum")

STRATEGIES = ("auto", "resume_acks", "paced_release", "lcd", "proactive", "zero_window")
SERVERS = ("cubic", "reno", "bbr")
TIMEOUT = 120.0  # seconds for a download, blackouts and backed-off timers included


@dataclass(frozen=True)
class Fetch:
    """One download of a batch."""

    at: float  # seconds after the batch's start
    size: int
    server: str
    v6: bool
    tls: bool


@dataclass(frozen=True)
class Batch:
    """What happens in one lab, drawn from a seed: the same seed, the same batch."""

    strategy: str
    radio: bool
    scenario: str
    fetches: tuple[Fetch, ...]

    @classmethod
    def drawn(cls, seed: int, count: int, span: float, strategy: str | None = None) -> "Batch":
        """`count` downloads begun within `span` seconds, and blackouts all along and a little longer."""
        luck = random.Random(f"freeze-random {seed}")
        # Half of the batches the default, the others in turn, so that few rounds have them all.
        chosen = STRATEGIES[0] if seed % 2 else STRATEGIES[1 + seed // 2 % (len(STRATEGIES) - 1)]
        radio = luck.random() < 0.5
        delays = [luck.choice((5, 10, 25, 50, 100)) + luck.random() for _ in SERVERS]
        text = ('[scenario]\nname = "bench-freeze-random"\nduration = "600s"\n[wifi]\nprofile = "wifi-g"\n'
                f'[cell]\nprofile = "lte"\nnat = {_toml(luck.random() < 0.25)}\nsource_filter = {_toml(luck.random() < 0.25)}\n')
        for number, (congestion, delay) in enumerate(zip(SERVERS, delays), 1):
            text += f'[[server]]\nname = "srv{number}"\ncongestion = "{congestion}"\ndelay = "{delay:.3f}ms"\n'
        at = 0.3 + luck.random()
        while at < span + 3:
            length = 0.1 * (60 ** luck.random())  # 0.1 to 6 s, short ones more often
            text += (f'[[timeline]]\nat = "{at * 1e3:.0f}ms"\nfor = "{length * 1e3:.0f}ms"\nwhat = "blackout"\n'
                     f'mode = "{luck.choice(("drop", "drop", "buffer", "fade"))}"\ncarrier = "{luck.choice(("up", "up", "down"))}"\n')
            at += length + 0.15 * (40 ** luck.random())
        for _ in range(luck.randrange(3)):
            text += (f'[[timeline]]\nat = "{luck.random() * span * 1e3:.0f}ms"\nfor = "{(0.5 + 4 * luck.random()) * 1e3:.0f}ms"\n'
                     f'what = "cell_down"\nmode = "{luck.choice(("drop", "buffer"))}"\ncarrier = "{luck.choice(("up", "down"))}"\n')
        for what in ("nat", "source_filter"):
            if luck.random() < 0.3:
                text += f'[[timeline]]\nat = "{luck.random() * span * 1e3:.0f}ms"\nwhat = "{what}"\nvalue = {_toml(luck.random() < 0.5)}\n'
        fetches = tuple(sorted((Fetch(round(luck.random() * span, 3), int(100_000 * 30 ** luck.random()), f"srv{luck.randrange(3) + 1}",
                                      luck.random() < 0.5, luck.random() < 0.2) for _ in range(count)), key=lambda fetch: fetch.at))
        return cls(strategy or chosen, radio, text, fetches)


def _toml(value: bool) -> str:
    return "true" if value else "false"


class FreezeRandom(Bench):
    name = "freeze-random"
    summary = "downloads of known content through random blackouts, every strategy: complete, and equal by SHA-256"
    parallel = True
    settings = {"only": "number of one download of the batch, from 0: the others are left out",
                "strategy": ", ".join(STRATEGIES) + ": instead of the one drawn",
                "detection": "radio, silence, instead of what was drawn"}
    detail_columns = (("strategy", "strategies"), ("detection", "detection"), ("bytes", "bytes a batch"), ("blackouts", "blackouts a batch"),
                      ("longest_s", "longest download, s"))
    notes = (
        "A batch is one lab with three servers (CUBIC, Reno, BBR; 10 to 200 ms RTT) and many downloads at once, half of them by IPv6, a fifth by TLS, of 100 kB "
        "to 3 MB of pseudo-random bytes. Drawn from the seed: strategy (half of the batches the default), detection with or without radio events, "
        "blackouts (0.1 to 6 s, dropping, buffering or fading, with and without carrier), cellular link up, down, filtered, translated.",
        "Repeat one batch: --seed SEED --rounds 1; one download of it: also --set only=NUMBER.")

    def cases(self, quick: bool) -> list[Case]:
        goals = (Goal(TANDEM.name, "<=", 0, metric=BAD.name, text="nothing lost or changed"),
                 Goal(TANDEM.name, "<=", 0, metric=BREACHES.name, text="no module fault, no violation"))
        parameters = {"count": 10, "span": 6.0} if quick else {"count": 40, "span": 18.0}
        return [Case("random blackouts", (TANDEM,), (DOWNLOADS, BAD, BREACHES), 3 if quick else 25, goals, "", parameters)]

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        from dataclasses import replace

        extra: dict[str, Any] = {}
        for key, text in settings.items():
            allowed = {"only": text.isdigit() and int(text) < cases[0].parameters["count"], "strategy": text in STRATEGIES,
                       "detection": text in ("radio", "silence")}
            if not allowed[key]:
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}"
                               + (f"; up to {cases[0].parameters['count'] - 1}" if key == "only" else ""))
            extra[key] = text
        return [replace(case, parameters={**case.parameters, **extra}) for case in cases]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 2.5 * case.parameters["span"] + 5.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        given = case.parameters
        batch = Batch.drawn(seed, given["count"], given["span"], given.get("strategy"))
        radio = given["detection"] == "radio" if "detection" in given else batch.radio
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(batch.scenario, seed=seed, prefix=options.prefix))
            config: dict[str, Any] = {"modules": {"freeze": {"strategy": batch.strategy}}}
            if radio:
                config["links"] = {"radio": f"lab:{lab.directory / 'frames.sock'}"}
            daemon = stack.enter_context(helpers.tandem(lab, options, ["freeze"], config, f"{self.name}-{seed}"))
            wanted = [number for number in range(len(batch.fetches)) if str(number) == given.get("only", str(number))]
            sums = {}
            for number in wanted:
                content = random.Random(f"{seed} {number}").randbytes(batch.fetches[number].size)
                sums[number] = hashlib.sha256(content).hexdigest()
                lab.add_file(f"f{number}", content)
            records = self._fetch(lab, batch, wanted, sums)
            if daemon.process and daemon.process.poll() is not None:
                raise LabError(f"tandemd ended with code {daemon.process.returncode}: {daemon.log.read_text().strip()[-1000:]}")
            status = from_status(daemon.api("/v1/status"))
            events = lab.events()
            helpers.whole(lab)
            bad = [record for record in records if record["bad"]]
            breaches = status["violations"] + (len(status["faults"]) if isinstance(status["faults"], list) else int(status["faults"]))
            details = {
                "completed": [len(records) - len(bad)], "bad": [len(bad)], "breaches": [breaches], "strategy": batch.strategy,
                "detection": "radio" if radio else "silence", "bytes": sum(record["size"] for record in records),
                "blackouts": sum(event.get("event") == "blackout" and event.get("phase") == "begin" for event in events),
                "longest_s": max((record["seconds"] for record in records), default=0.0), "downloads": records, **status,
                "repeat": f"--seed {seed} --rounds 1" + (f" --set only={bad[0]['number']}" if bad else "")}
        return Measurement({DOWNLOADS.name: len(records) - len(bad), BAD.name: len(bad), BREACHES.name: breaches}, details)

    @staticmethod
    def _fetch(lab: Lab, batch: Batch, wanted: list[int], sums: Mapping[int, str]) -> list[dict[str, Any]]:
        """Starts each at its time, and tells how each ended."""
        running: list[tuple[int, Any]] = []
        records: list[dict[str, Any]] = []
        lab.start_timeline()
        began = time.monotonic()
        try:
            for number in wanted:
                fetch = batch.fetches[number]
                time.sleep(max(0.0, began + fetch.at - time.monotonic()))
                running.append((number, lab.start_download(f"f{number}", server=fetch.server, v6=fetch.v6, tls=fetch.tls, sha256=True,
                                                           interval=1.0, timeout=TIMEOUT)))
            while running:
                number, download = running[0]
                fetch = batch.fetches[number]
                result = download.wait()
                running.pop(0)
                why = result.error or ("" if result.sha256 == sums[number] else "other bytes than the server has (SHA-256)")
                records.append({"number": number, "at": fetch.at, "size": fetch.size, "server": fetch.server, "v6": fetch.v6, "tls": fetch.tls,
                                "seconds": round(result.seconds, 3), "bytes": result.bytes, "bad": why})
        finally:
            for _, download in running:
                if download.running():
                    download.stop()
        return records


BENCH = FreezeRandom()
