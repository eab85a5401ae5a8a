"""The page: one file, nothing from elsewhere."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).resolve().with_name("page.html")


def rounded(value: Any) -> Any:
    """Microseconds are enough for the eye, and half the file."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return value


def page(title: str, told: dict[str, Any], story: dict[str, Any]) -> str:
    # "</script" would end the script, and "<!--<script" would keep it from ending; JSON allows the escape.
    data = json.dumps(rounded({**told, "story": story}), separators=(",", ":")).replace("<", "\\u003c")
    before, _, behind = TEMPLATE.read_text(encoding="utf-8").partition("@DATA@")  # a file's name may be anything, too
    return before.replace("@TITLE@", html.escape(title)) + data + behind
