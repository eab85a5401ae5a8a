"""Takes out of texts and JSON what must not leave the machine: passwords, tokens, keys, names of networks, hardware addresses, home directories. Pure.

Names are replaced by digests under a key that is made for one bundle: equal ones stay equal within it, and nobody can try names against it afterwards.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from typing import Any, Callable, Iterable

REMOVED = "(removed)"
# Settings and members whose value is nobody's business, whatever they hold.
_SECRET_NAME = re.compile(r"passw(?:or)?d|passphrase|passcode|(?:^|[_.-])pass$|psk|secret|token|credential|cookie|authori[sz]ation|bearer|private|api_?key|(?:^|[_.-])(?:key|pin|wep_?key\d?)$|identity|username", re.IGNORECASE)
_NETWORK_NAME = re.compile(r"^(?:e?ssid|network_name)$", re.IGNORECASE)
# What `tandem exclude` and [exclude] name: {"kind": "ssid", "what": "Office"}, "excluded": "ssid Office", and lists in the configuration.
_EXCLUDED = ("to", "user", "service", "ssid")
_MAC = re.compile(r"(?<![0-9A-Fa-f:.-])(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])")
_V4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_V6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?![\w:])")
_PEM = re.compile(r"-----BEGIN [^-]+-----.*?(?:-----END [^-]+-----|\Z)", re.DOTALL)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
# What is said in free text or on a command line: password=..., --token ..., Authorization: Bearer ...
_SAID = re.compile(r"(?i)\b([\w.-]*(?:passw(?:or)?d|passphrase|passcode|psk|secret|token|credentials?|cookie|api[_-]?key|wep_?key\d?)|(?:proxy-)?authorization)(\s*[=:]\s*|\s+)"
                   r"(?:\"[^\"]*\"|'[^']*'|(?:(?:basic|bearer|digest)\s+)?[^\s,;\"']+)")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_RANDOM = re.compile(r"(?<![\w/+-])(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[A-Za-z0-9_+=-]{28,}(?![\w/])")
_HOME = re.compile(r"/(home|Users)/[^/\s\"':,;]+|/root(?=/|\b)")
_WORD = r"(?<!\w){}(?!\w)"


class Scrubber:
    """`address`: from packed address to packed address; None leaves addresses as they are. `names`: of networks and of this machine, beside those found in the JSON."""

    def __init__(self, key: bytes, address: Callable[[bytes], bytes] | None, names: Iterable[str] = (), homes: Iterable[str] = ()):
        self._key, self._address = key, address
        self._names: dict[str, str] = {}
        for name in names:
            self.learn(name, "host")
        self._homes = sorted((home.rstrip("/") for home in homes if len(home) > 1), key=len, reverse=True)

    def learn(self, name: str, kind: str = "network") -> str:
        """From now on the name is replaced wherever it stands; gives by what."""
        if name and name not in self._names:
            self._names[name] = f"{kind}-{self._digest(name)[:8]}"
        return self._names.get(name, "")

    def learn_networks(self, value: Any) -> None:
        """Every name of a network in JSON, so that it is found in other parts, too."""
        if isinstance(value, dict):
            if value.get("kind") == "ssid" and isinstance(value.get("what"), str):
                self.learn(value["what"])
            for key, one in value.items():
                if _NETWORK_NAME.search(str(key)):
                    for name in one if isinstance(one, list) else [one]:
                        if isinstance(name, str):
                            self.learn(name)
                self.learn_networks(one)
        elif isinstance(value, list):
            for one in value:
                self.learn_networks(one)

    def _digest(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _excluded(self, kind: str, what: Any) -> Any:
        """Of an exclusion: networks are learnt; of users, services and hosts only this place is replaced, since such words stand everywhere."""
        if kind == "ssid" and isinstance(what, str):
            return self.learn(what)
        if not isinstance(what, str) or self.text(what) != what or _V4.search(what) or _V6.search(what):
            return self.json(what)  # an address, replaced or kept as all others are
        return f"{'host' if kind == 'to' else kind}-{self._digest(what)[:8]}"

    def json(self, value: Any) -> Any:
        if isinstance(value, dict):
            made = {}
            for key, one in value.items():
                name = str(key)
                if name == "what" and value.get("kind") in _EXCLUDED:
                    made[name] = self._excluded(value["kind"], one)
                    continue
                if name == "excluded" and isinstance(one, str) and one.partition(" ")[0] in _EXCLUDED:
                    kind, _, what = one.partition(" ")
                    made[name] = f"{kind} {self._excluded(kind, what)}"
                    continue
                if name == "exclude" and isinstance(one, dict):
                    made[name] = {kind: [self._excluded(kind, what) for what in all_of] if kind in _EXCLUDED and isinstance(all_of, list) else self.json(all_of) for kind, all_of in one.items()}
                    continue
                if isinstance(one, list) and _NETWORK_NAME.search(name):
                    made[name] = [self.learn(each) if isinstance(each, str) else self.json(each) for each in one]
                    continue
                if " " not in name and _SECRET_NAME.search(name) and one not in (None, "", [], {}) and not isinstance(one, bool):
                    made[self.text(name)] = REMOVED
                elif isinstance(one, str) and _NETWORK_NAME.search(name):
                    made[name] = self.learn(one)
                else:
                    made[self.text(name)] = self.json(one)
            return made
        if isinstance(value, list):
            return [self.json(one) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        text = _PEM.sub(REMOVED, text)
        text = _URL.sub("(address of a page)", text)
        text = _SAID.sub(lambda found: f"{found[1]}{found[2]}{REMOVED}", text)
        text = _BEARER.sub(lambda found: f"{found[1]} {REMOVED}", text)
        for name, shown in sorted(self._names.items(), key=lambda pair: len(pair[0]), reverse=True):
            # Of short ones only whole words: else every "a" of a text would be one.
            text = re.sub(_WORD.format(re.escape(name)) if len(name) < 6 else re.escape(name), shown, text)
        for home in self._homes:
            text = re.sub(re.escape(home) + r"(?=/|\b)", "~", text)
        text = _HOME.sub("~", text)
        text = _MAC.sub(lambda found: "hw-" + self._digest(found[0].lower().replace("-", ":"))[:8], text)
        text = _RANDOM.sub(REMOVED, text)
        if self._address:
            text = _V6.sub(self._other, _V4.sub(self._other, text))
        return text

    def _other(self, found: re.Match[str]) -> str:
        assert self._address
        words, behind = found[0], ""
        if words.endswith(":") and not words.endswith("::"):
            words, behind = words[:-1], ":"
        try:
            packed = ipaddress.ip_address(words.rstrip(".")).packed
        except ValueError:
            return found[0]
        return str(ipaddress.ip_address(self._address(packed))) + behind
