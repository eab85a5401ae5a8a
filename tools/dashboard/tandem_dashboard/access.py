"""Who may see the page's data: a token that works once, the session it is exchanged for, and what a request must say."""

from __future__ import annotations

import hmac
from collections.abc import Callable

COOKIE = "tandem_dashboard"


class Refused(Exception):
    """The request is not allowed; the text tells a user why, and what to do."""


def same(given: str, secret: str) -> bool:
    """Takes as long wherever they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())


class Access:
    """The token and the session of one run. `random` makes a secret each time it is called; `port` is the server's.

    Cookies know hosts and no ports: whatever else this host serves on loopback, perhaps another user's program, is handed those of
    all ports. So the session's cookie holds only below a path that is secret, too.
    """

    def __init__(self, port: int, random: Callable[[], str]):
        self.hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self.token: str | None = random()
        self._base, self._session = f"/api/{random()}", random()
        self._open = False

    def check_source(self, method: str, host: str | None, origin: str | None) -> None:
        """Raises Refused when the request came by another name (DNS rebinding) or from another page."""
        if host not in self.hosts:
            raise Refused("this is not the name that the dashboard has: open the address that `tandem dashboard` printed")
        if origin is not None and origin not in {f"http://{name}" for name in self.hosts}:
            raise Refused("a page from elsewhere has asked; only the dashboard's own may")
        if origin is None and method not in ("GET", "HEAD"):
            raise Refused("only the dashboard's own page may change something, and a request from it says so (Origin)")

    def exchange(self, token: str) -> tuple[str, str]:
        """The path below which the session holds, and its cookie; the token is dead then. Raises Refused."""
        if self.token is None:
            raise Refused("this address was opened before, and it works once; end `tandem dashboard` and start it again")
        if not same(token, self.token):
            raise Refused("the token in the address is not the one that `tandem dashboard` printed")
        self.token, self._open = None, True
        return self._base, f"{COOKIE}={self._session}; Path={self._base}/; HttpOnly; SameSite=Strict"

    def check_session(self, path: str, cookies: str | None) -> str:
        """What of the path is behind the session's part of it, as "/events". Raises Refused."""
        # Others on this host may have set cookies of any form and of this name, too: one must be ours.
        given = [value for name, _, value in (one.strip().partition("=") for one in (cookies or "").split(";")) if name == COOKIE]
        if not (self._open and same(path[:len(self._base)], self._base) and any(same(value, self._session) for value in given)):
            raise Refused("no session: open the address that `tandem dashboard` printed; it works once")
        return path[len(self._base):]
