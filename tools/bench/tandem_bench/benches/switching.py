"""One client, two access points on different channels: section 7 of Croitoru et al. (NSDI 2015), in the simulator."""

from __future__ import annotations

from typing import Any

from .. import simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options

AP1, AP2 = Arm("TCP by AP1", "ap1"), Arm("TCP by AP2", "ap2")
SQUARED, EQUAL, TANDEM = Arm("alpha 2", "published"), Arm("alpha 0", "equal"), Arm("Tandem", "tandem")
ARMS = (AP1, AP2, SQUARED, EQUAL, TANDEM)
GOODPUT = Metric("goodput", "Mb/s", 2)

# Name -> rates of the channels, the published figures for alpha 2 and 0, the goal.
POWERS = {"max and max": ((20, 20), (18, 18), 18.5), "max and low": ((20, 14), (17.5, 16), 18.0), "max and lower": ((20, 5), (17.5, 12), 18.0)}
SENDERS = {"OLIA": "olia", "LIA": "lia", "uncoupled CUBIC": "cubic"}


class Switching(simulations.SimulatorBench):
    name = "switching"
    summary = "one download over two access points on different channels by one card: equation 6 as published, and Tandem (simulator)"
    columns = ("ap1", "ap2", "published", "equal", "tandem")
    headings = {"ap1": "TCP by AP1", "ap2": "TCP by AP2", "published": "alpha 2, as published", "equal": "alpha 0, as published"}
    detail_columns = (("share", "time on channel 1"), ("timeouts", "timeouts"))
    notes = (
        "In the simulator: TCP and MPTCP packet by packet over a card that is on one channel at a time. Channels of 20, 14 and 5 Mb/s stand for the published transmit powers. C = 200 ms, slots of at least 10 ms, 5 ms for a switch, in which nothing is received or sent; "
        "access points keep 200 packets for an absent client. 20 ms round trip without queues, a receive buffer of 3 MB. 60 s, of which the first 10 do not count.",
        "\"alpha 2\" and \"alpha 0\": the slots of each cycle by equation 6 from what the last one brought. \"Tandem\": channels are compared for about a second now and then; in between the card stays on the best one and the other subflow is a backup (MP_PRIO). "
        "\"TCP by AP1 / AP2\": Reno without switching.",
        "The simulator's sender does not send data again by another subflow, as Linux may: what waits at a slow access point holds up the whole connection. \"large buffer\": a receive buffer of 100 MB.",
        "Goals are the client's total out of 20 Mb/s, with OLIA, the paper's sender.",
    )

    def cases(self, quick: bool) -> list[Case]:
        made: list[Case] = []
        for sender, cc in SENDERS.items():
            for power, (rates, published, goal) in POWERS.items():
                goals: tuple[Goal, ...] = ()
                if cc == "olia":
                    goals = (Goal(TANDEM.name, ">=", goal, text=f"at least {goal:g} Mb/s"), Goal(EQUAL.name, ">=", 0.93 * published[1], text=f"alpha 0: the printed {published[1]:g} within 7 %"),
                             Goal(SQUARED.name, ">=", 0.93 * published[0], text=f"alpha 2: the printed {published[0]:g} within 7 %"))
                made.append(Case(f"{sender}, {power}", ARMS, (GOODPUT,), 3 if quick else 8, goals, f"{published[0]:g} (alpha 2), {published[1]:g} (alpha 0)", {"cc": cc, "mbps": rates}))
        for power, (rates, published, _) in POWERS.items():
            made.append(Case(f"OLIA, {power}, large buffer", (SQUARED, EQUAL, TANDEM), (GOODPUT,), 3 if quick else 8, (), f"{published[0]:g} (alpha 2), {published[1]:g} (alpha 0)",
                             {"cc": "olia", "mbps": rates, "buffer": 1e8}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.4

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        rates = case.parameters["mbps"]
        # Nothing random but the start: the round trip differs a little from seed to seed.
        settings: dict[str, Any] = {"mbps": ",".join(f"{rate:g}" for rate in rates), "cc": case.parameters["cc"], "rtt": 20 + 0.25 * (seed % 16), "seed": seed, "receive-buffer": case.parameters.get("buffer", 3e6)}
        if arm in (AP1, AP2):
            settings["mbps"] = rates[0 if arm == AP1 else 1]
        elif arm == TANDEM:
            settings["rule"] = "best-channel"
        else:
            settings["alpha"] = 2 if arm == SQUARED else 0
        result = simulations.simulate("switching", settings)
        return Measurement({GOODPUT.name: result["mbps"]}, {"subflows": result["subflows"], "share": round(result["subflows"][0]["share"], 3), "timeouts": sum(one["timeouts"] for one in result["subflows"])})


BENCH = Switching()
