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
from typing import Mapping, Sequence

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


def null() -> list[Arm]:
    """Off against off."""
    return [Arm(OFF, frozenset()), Arm("off again", frozenset())]
