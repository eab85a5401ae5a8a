"""Looks at the daemon once a second while a page is open, and keeps the last minute for a page that is loaded again."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from tandem_common.control import Daemon, understood
from tandem_common.errors import Failure

from .samples import Samples

EVERY = 1.0    # seconds between two looks
KEPT = 60      # looks that a page gets when it begins, and seconds that looking goes on without one
STREAMS = 8    # pages at a time
SILENCE = 15   # seconds after which an empty line says that the stream is alive


class Watch:
    """One thread that asks, and any number that wait for what it finds."""

    def __init__(self, daemon: Daemon):
        self._daemon, self._samples = daemon, Samples()
        self._changed = threading.Condition()
        self._points: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._number, self._event, self._streams, self._left, self._ended = 0, b"", 0, float("-inf"), False
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Streams end, and no further look is taken."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def look(self) -> bytes:
        """One look as an event; that the daemon does not answer is one, too: it may come back."""
        try:
            status, flows = self._daemon.get("/v1/status"), self._daemon.get("/v1/flows")
            with understood():  # or it would end the thread that looks, and pages would go on to show what was
                sample = self._samples.take(time.time(), time.monotonic(), status, flows)
        except Failure as failure:
            return event("trouble", {"error": str(failure)})
        with self._changed:
            self._points.append(sample["point"])
        return event("now", sample)

    def stream(self) -> Iterator[bytes]:
        """Events for one page: the last minute, then every second's. Raises Failure when too many pages are open."""
        with self._changed:
            if self._streams >= STREAMS:
                raise Failure(f"{STREAMS} pages are open already; close one")
            self._streams += 1
            self._changed.notify_all()
            seen, found = self._number, event("past", {"points": list(self._points)})
        try:
            while True:
                yield found
                with self._changed:
                    self._changed.wait_for(lambda: self._number > seen or self._ended, SILENCE)
                    if self._ended:
                        return
                    found, seen = self._event if self._number > seen else b": nothing new\n\n", self._number
        finally:
            with self._changed:
                self._streams -= 1
                self._left = time.monotonic()

    def _wanted(self) -> bool:
        return self._streams > 0 or time.monotonic() < self._left + KEPT

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._wanted())
                if self._ended:
                    return
            found = self.look()
            with self._changed:
                self._number, self._event = self._number + 1, found
                self._changed.notify_all()
                # A look that took longer is not made up for.
                due = max(due + EVERY, time.monotonic())
                self._changed.wait_for(lambda: self._ended, due - time.monotonic())


def event(kind: str, content: dict[str, Any]) -> bytes:
    """One server-sent event. JSON has no line breaks of its own."""
    return f"event: {kind}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
