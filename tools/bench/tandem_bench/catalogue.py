"""The benches by name. A new one is a module in benches/ and an entry in CATALOGUE."""

from __future__ import annotations

from importlib import import_module

from .model import Bench

# Name -> module; imported when asked for, so that a bench's needs do not burden the others.
CATALOGUE = {
    "offload": "offload",
    "overhead": "overhead",
    "recorder": "recorder",
    "latency": "latency",
    "scale": "scale",
    "idle": "idle",
    "detection": "detection",
    "freeze": "freeze",
    "freeze-random": "freeze_random",
    "freeze-requests": "freeze_requests",
    "mirror": "mirror",
    "mirror-roc": "mirror_roc",
    "mirror-fairness": "mirror_fairness",
    "mirror-losses": "mirror_losses",
    "senders": "senders",
    "estimator": "estimator",
    "ecn-grid": "ecn_grid",
    "ecn-uplink": "ecn_uplink",
    "ecn-many": "ecn_many",
    "carrier-sense": "carrier_sense",
    "mobility": "mobility",
    "ecn-linux": "ecn_linux",
    "fairness": "fairness",
    "fairness-linux": "fairness_linux",
    "static-tail": "static_tail",
    "minislot-1": "minislot_1",
    "minislot-2": "minislot_2",
    "minislot-3": "minislot_3",
    "switching": "switching",
    "switching-users": "switching_users",
    "rtt-model": "rtt_model",
    "visits": "visits",
    "roaming": "roaming",
    "cla": "cla",
    "promise": "promise",
    "uploads": "uploads",
    "together": "together",
    "applications": "applications",
    "paths": "paths",
    "relay": "relay",
    "drawn": "drawn",
    "integrated": "integrated",
    "comparisons": "comparisons",
}


def load(name: str) -> Bench:
    """The bench of that name. Raises KeyError when there is none."""
    return import_module(f"{__package__}.benches.{CATALOGUE[name]}").BENCH
