"""What was measured, in a directory: `experiment.json` says what is compared, `pairs.jsonl` has a line for each pair, on the disk before the next one begins."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tandem_common.errors import BadInput, Failure
from tandem_common.whole import written_whole


# What must be equal for pairs to belong together.
_SAME = ("arms", "null", "workload", "for_s", "warm_up_s", "washout_s", "unvalidated")


class Store:
    def __init__(self, directory: Path):
        self.directory = directory
        self.head: dict[str, Any] = {}
        self.pairs: list[dict[str, Any]] = []
        self._whole_bytes = 0  # of pairs.jsonl; behind them a pair was being written when a crash came, or is just now

    @property
    def _head_file(self) -> Path:
        return self.directory / "experiment.json"

    @property
    def _pairs_file(self) -> Path:
        return self.directory / "pairs.jsonl"

    def load(self) -> bool:
        """False when there is no experiment. Raises BadInput for files that are none."""
        try:
            self.head = json.loads(self._head_file.read_text())
            raw = self._pairs_file.read_bytes() if self._pairs_file.exists() else b""
        except (FileNotFoundError, NotADirectoryError):
            return False
        except ValueError as error:
            raise BadInput(f"{self._head_file}: {error}; not an experiment of `tandem ab`, or damaged") from error
        except OSError as error:
            raise Failure(f"{error.filename}: {error.strerror}") from error
        if missing := [name for name in (*_SAME, "unit", "smaller_is_better", "until", "seed") if not isinstance(self.head, dict) or name not in self.head]:
            raise BadInput(f"{self._head_file}: has no {missing[0]}; not an experiment of this version of `tandem ab`, or damaged")
        self._whole_bytes = raw.rfind(b"\n") + 1
        whole = raw[:self._whole_bytes]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self.pairs.append(_pair(json.loads(line)))
            except ValueError as error:
                raise BadInput(f"{self._pairs_file}:{number}: {error}; remove this line, or choose another --report") from error
        return True

    def check(self, head: dict[str, Any]) -> None:
        """Raises BadInput when the experiment that was loaded is another one than `head`."""
        for name in _SAME:
            if self.head.get(name) != head[name]:
                raise BadInput(f"{self.directory}: holds an experiment with another {name.removesuffix('_s').replace('_', '-')} ({_words(self.head.get(name))}, "
                               f"now {_words(head[name])}); repeat its command, or choose another --report")

    def begin(self) -> None:
        """Puts the head on the disk, and takes away a pair that a crash left half written. Raises Failure where somebody else has added pairs since load()."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if self._pairs_file.exists() and b"\n" in self._pairs_file.read_bytes()[self._whole_bytes:]:
                raise Failure(f"{self.directory}: another `tandem ab` has added pairs meanwhile; when it has ended, the same command goes on with them")
            self.keep()
            if self._pairs_file.exists():
                os.truncate(self._pairs_file, self._whole_bytes)
        except OSError as error:
            raise Failure(f"{error.filename or self.directory}: {error.strerror}") from error

    def keep(self, **words: Any) -> None:
        """Adds something to the head, on the disk. Raises Failure."""
        self.head |= words
        try:
            with written_whole(self._head_file) as fresh:
                fresh.write_text(json.dumps(self.head, indent=1) + "\n")
        except OSError as error:
            raise Failure(f"{self._head_file}: {error.strerror}") from error

    def append(self, pair: dict[str, Any]) -> None:
        """On the disk when this returns."""
        line = (json.dumps(pair) + "\n").encode()
        try:
            with open(self._pairs_file, "ab", buffering=0) as file:
                before, left = file.tell(), memoryview(line)
                try:
                    while left:
                        left = left[file.write(left):]
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(before)  # half a line would spoil the next one
                    raise
        except OSError as error:
            raise Failure(f"{self._pairs_file}: {error.strerror}; this pair is not kept") from error
        self.pairs.append(pair)


def _pair(line: Any) -> dict[str, Any]:
    """Raises ValueError for what is none."""
    if not isinstance(line, dict) or (missing := [name for name in ("number", "began", "seconds", "order", "discarded", "trials") if name not in line]):
        raise ValueError("not a pair" if not isinstance(line, dict) else f"a pair without {missing[0]}")
    return line


def _words(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ":".join(entry["name"] for entry in value)
    if isinstance(value, dict):
        return " ".join(str(part) for part in value.values() if part not in ("", None, False, []))
    return str(value)
