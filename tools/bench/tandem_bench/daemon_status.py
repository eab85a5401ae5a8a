"""What the daemon says of itself after a run, for a run's details. Pure."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from .helpers import knobs


def of_module(status: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Decisions, counters, faults and violations of a module, from the answer to /v1/status."""
    module = next((entry for entry in status["modules"] if entry["name"] == name), {})
    decisions: Mapping[str, int] = module.get("decisions", {})
    faults = module.get("faults", 0)
    return {"decisions": decisions, "violations": sum(numbers(module.get("violations", {}))), "faults": len(faults) if isinstance(faults, list) else int(faults),
            "counters": module.get("counters", {}), "links": status.get("links", {}), "datapath": status.get("datapath", {}), "knobs": knobs(status),
            "reasons": shortly(decisions)}


def of_all(status: Mapping[str, Any]) -> dict[str, Any]:
    """The same for all modules that are on, together; decisions by module."""
    own = {module["name"]: of_module(status, module["name"]) for module in status["modules"] if module.get("enabled")}
    return {"decisions": {name: entry["decisions"] for name, entry in own.items()}, "counters": {name: entry["counters"] for name, entry in own.items()},
            "violations": sum(entry["violations"] for entry in own.values()), "faults": sum(entry["faults"] for entry in own.values()),
            "links": status.get("links", {}), "datapath": status.get("datapath", {}), "knobs": knobs(status),
            "reasons": "; ".join(entry["reasons"] for entry in own.values() if entry["reasons"])}


def shortly(decisions: Mapping[str, int], most: int = 3) -> str:
    """The most frequent reasons without their counts (which the JSON has): runs with equal reasons read alike."""
    ranked = sorted(((count, why) for why, count in decisions.items() if isinstance(count, int) and count > 0), reverse=True)
    return ", ".join(why for _, why in ranked[:most])


def numbers(value: Any) -> Iterator[int]:
    """Every number in a tree."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, (int, float)):
        yield int(value)
