"""The settings that are compared. Pure.

    SETTING[:SETTING...]    each against the first; a single one against "off"
    SETTING                 off, queued, or parts joined by +
    part                    MODULE, or MODULE.KNOB=VALUE, which switches the module on, too

In every arm the modules that it does not name are off. Three settings are always there: "off" (nothing is queued), "queued" (packets pass the daemon and
are left as they are) and a module on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from tandem_common.errors import BadInput

OFF, QUEUED = "off", "queued"
# The published method with a share of nothing: every pure ACK of a download is queued, looked at and passed.
_QUEUED = {"offload.strategy": "fraction", "offload.fraction": "0"}


@dataclass(frozen=True)
class Arm:
    """A setting of all modules: those that are on, and knobs that differ from what the user has."""

    name: str
    modules: frozenset[str]
    knobs: Mapping[str, str] = field(default_factory=dict)  # MODULE.KNOB: value


def _arm(text: str, known: Sequence[str]) -> Arm:
    if text == OFF:
        return Arm(OFF, frozenset())
    if text == QUEUED:
        return Arm(QUEUED, frozenset({"offload"}), dict(_QUEUED))
    modules: set[str] = set()
    knobs: dict[str, str] = {}
    for part in text.split("+"):
        match = re.fullmatch(r"([a-z0-9_]+)(?:\.([a-z0-9_]+)=([^+:]+))?", part)
        if not match or match[1] not in known:
            raise BadInput(f'setting "{text}": allowed: off, queued, or joined by +: {", ".join(known)}, or MODULE.KNOB=VALUE')
        modules.add(match[1])
        if match[2]:
            knobs[f"{match[1]}.{match[2]}"] = match[3]
    return Arm(text, frozenset(modules), knobs)


def parse(text: str, known: Sequence[str]) -> list[Arm]:
    """The arms, the one that others are compared with first. Raises BadInput."""
    words = text.split(":")
    arms = [_arm(word, known) for word in (words if len(words) > 1 else [OFF, *words])]
    if len({arm.name for arm in arms}) < len(arms):
        raise BadInput(f'settings "{text}": the same one twice; off against off is --null')
    return arms


def check(arms: Sequence[Arm], knobs: Mapping[str, Sequence[str]]) -> None:
    """Raises BadInput for a module or knob that the daemon, whose knobs by module these are, does not have."""
    for arm in arms:
        if unknown := arm.modules - knobs.keys():
            raise BadInput(f'setting "{arm.name}": this daemon has no module {min(unknown)}; it has: {", ".join(knobs)}')
        for module, _, knob in (name.partition(".") for name in arm.knobs):
            if knob not in knobs[module]:
                raise BadInput(f'setting "{arm.name}": {module} has no knob {knob}; it has: {", ".join(knobs[module])}')


def knobs_of(modules: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The names of their knobs, of modules as the daemon tells of them."""
    return {name: [knob["name"] for knob in module["knobs"]] for name, module in modules.items()}


def null() -> list[Arm]:
    """Off against off."""
    return [Arm(OFF, frozenset()), Arm("off again", frozenset())]
