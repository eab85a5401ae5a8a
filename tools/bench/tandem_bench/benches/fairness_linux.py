"""What a client with two access points does to the others there, on kernel TCP and MPTCP in the lab: tables 1 to 3 of Croitoru et al. (NSDI 2015, section 6.5)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tandem_lab import Lab
from tandem_lab.errors import LabError

from .. import helpers, lateness
from ..daemon_status import of_module
from ..model import Arm, Bench, Case, Goal, Measurement, Options
from .ecn_linux import HONEST_US, addresses_of
from .fairness import C1, C2, JAIN, LEAST, OTHERS, TABLES, C, jain

AT_AP1, AT_AP2 = Arm("C at AP1", "ap1"), Arm("C at AP2", "ap2")
ALONE, TANDEM = Arm("MPTCP alone", "plain"), Arm("Tandem", "tandem")
NO_SURVEY = Arm("Tandem, no survey", "no_survey")
ARMS = (AT_AP1, AT_AP2, ALONE, TANDEM, NO_SURVEY)
UNCOUPLED = "5/5/10 with uncoupled subflows"

SECONDS, SETTLE = 40.0, 10.0
# C has wlan0 at AP1 and wlan1 at AP2. The others are TCP by interfaces of their own. All begin on another channel and come at once, each with its own radio.
OF_C, OF_C1, OF_C2 = ("wlan0", "wlan1"), "wlan2", "wlan3"


@dataclass(frozen=True)
class Radio:
    """Of C's frames at an access point: Mb/s, and errors of each attempt."""

    rate: int = 54
    frame_error: float = 0.0


# The far ways follow from the published rows of TCP clients, as in `fairness`: 24 Mb/s take 0.3 ms more than 54, and with errors p a packet costs the sum of (2 p)^k turns of the
# other access point, since each attempt doubles the window: 2.7 turns are p = 0.33, 3.4 are 0.37.
FAR_2, FAR_3 = Radio(24, 0.33), Radio(24, 0.37)
RADIOS = {TABLES[0].name: (Radio(), Radio()), TABLES[1].name: (FAR_2, Radio()), TABLES[2].name: (FAR_3, FAR_3)}


def scenario(congestion: str, radios: tuple[Radio, Radio] = (Radio(), Radio()), survey: bool = True) -> str:
    """As TOML: two access points on one channel and four stations."""
    parked = "".join(f'[[ap]]\nname = "p{number}"\ninterface = "wlan{number}"\nchannel = 11\n' for number in range(4))
    near = '[[ap]]\nname = "ap1"\n[[ap]]\nname = "ap2"\n'
    come = "".join(f'[[timeline]]\nat = "0s"\nwhat = "handoff"\ninterface = "{interface}"\nap = "{ap}"\ngap = "0ms"\nrate = "{radio.rate}"\nframe_error = {radio.frame_error}\n'
                   for interface, ap, radio in ((OF_C[0], "ap1", radios[0]), (OF_C[1], "ap2", radios[1]), (OF_C1, "ap1", Radio()), (OF_C2, "ap2", Radio())))
    return (f'[scenario]\nname = "fairness-linux"\nduration = "600s"\n[wifi]\nprofile = "wifi-a"\nretry_limit = 16\nsurvey = {str(survey).lower()}\n[cell]\nenabled = false\n[wan]\ndelay = "12.5ms"\n{near}{parked}'
            f'[[server]]\nname = "srv1"\ncongestion = "{congestion}"\n{come}')


class FairnessLinux(Bench):
    name = "fairness-linux"
    summary = "three clients and two access points, one of the clients at both: who gets how much on kernel TCP and MPTCP in the lab"
    columns = ("ap1", "ap2", "plain", "tandem", "no_survey")
    headings = {"ap1": "C at AP1 (TCP)", "ap2": "C at AP2 (TCP)", "plain": "MPTCP alone"}
    detail_columns = (("by_ap1_percent", "% of C by AP1"), ("flag_changes", "MP_PRIO changes"), ("release_error_p99_us", "lab late, p99 us"))
    notes = (
        f"Real kernel TCP and MPTCP, nginx, 802.11a, two access points on one channel, round trip 25 ms. C1 is a TCP client of AP1, C2 of AP2, C of AP1, of AP2 (TCP) or of both (MPTCP); three downloads of {SECONDS:g} s at once, counted from {SETTLE:g} s on. "
        "All clients are interfaces of one machine, stations of their own on the air; an access point serves its stations' queues in turn (the paper's have one queue for all).",
        "Upstream Linux couples nothing: the paper's rows for both access points are coupled; of table 1 its text has 10 Mb/s for C and 5 for each other without. Published: C1/C2/C for C at AP1, at AP2, at both.",
        f"C1, C2 and C where it is close: 54 Mb/s. Where C is far: {FAR_2.rate} Mb/s and {100 * FAR_2.frame_error:g} % (table 2), {100 * FAR_3.frame_error:g} % (table 3) of the attempts fail, from the published rows of TCP clients. Goals as in `fairness`, which has coupled senders.",
        "no survey: the driver does not tell how busy the channel is, so that `ecn` cannot know that others use what its own download leaves.",
        lateness.note(HONEST_US))

    def cases(self, quick: bool) -> list[Case]:
        made = []
        for table in TABLES[:1] if quick else TABLES:
            bound = jain(table.published) - 0.02
            goals = (Goal(TANDEM.name, ">=", bound, metric=JAIN.name, text=f"as fair as published with coupled senders: at least {bound:.3f}"),
                     Goal(TANDEM.name, ">=", 0.98, over=AT_AP2.name, metric=LEAST.name, text="the others not worse off than with TCP by the better one"))
            published = f"{table.rows}; {UNCOUPLED}" if table == TABLES[0] else table.rows
            made += [Case(f"{table.name}, {congestion}", ARMS, (C1, C2, C, JAIN, LEAST, OTHERS), 1 if quick else 3, goals, published, {"congestion": congestion, "table": table.name})
                     for congestion in ("cubic", "reno")[:1 if quick else 2]]
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return SECONDS + 4.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        helpers.needs_mptcp()
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(scenario(case.parameters["congestion"], RADIOS[case.parameters["table"]], arm != NO_SURVEY), seed=seed, prefix=options.prefix, counters=False))
            lab.start_timeline()
            for interface in (*OF_C, OF_C1, OF_C2):
                lab.wait_event("handoff", interface=interface)
            daemon = None
            if arm == ALONE:
                for number, interface in enumerate(OF_C, 1):
                    lab.client.run(["ip", "mptcp", "endpoint", "add", lab.info["interfaces"][interface]["ipv4"], "dev", interface, "id", str(number), "subflow"])
            elif arm in (TANDEM, NO_SURVEY):
                config = {"links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none", "more_wifi": list(OF_C[1:])}, "mptcp": {"setup": True}}
                daemon = stack.enter_context(helpers.tandem(lab, options, ["ecn"], config, f"{case.name}-{arm.name}-{seed}"))
                helpers.wait_for_endpoints(lab, addresses_of(lab, OF_C))
            single = {AT_AP1: OF_C[0], AT_AP2: OF_C[1]}.get(arm, "")
            running = [lab.start_download(seconds=SECONDS, interface=OF_C1), lab.start_download(seconds=SECONDS, interface=OF_C2),
                       lab.start_download(seconds=SECONDS, mptcp=not single, interface=single)]
            before = lab.counters()
            results = [download.wait() for download in running]
            after = lab.counters()
            for result in results:
                if result.error:
                    raise LabError(f"download: {result.error}")
            by = [after[interface]["bytes_in"] - before[interface]["bytes_in"] for interface in OF_C]
            details: dict[str, Any] = {"by_ap1_percent": 100 * by[0] / max(1, sum(by))}
            if daemon is not None:
                status = daemon.api("/v1/status")
                details |= of_module(status, "ecn") | {"flag_changes": status.get("steering", {}).get("flag_changes")}
            details |= lateness.checked(lab.stats(), HONEST_US)
        c1, c2, c = (result.goodput_from(SETTLE) for result in results)
        return Measurement({C1.name: c1, C2.name: c2, C.name: c, JAIN.name: jain((c1, c2, c)), LEAST.name: min(c1, c2), OTHERS.name: c1 + c2}, details)


BENCH = FairnessLinux()
