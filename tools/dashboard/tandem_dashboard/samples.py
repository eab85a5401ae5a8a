"""What happened between two looks at the daemon: goodput and round trip of each link, decisions by reason. No clock, no socket."""

from __future__ import annotations

from typing import Any

FLOWS_SHOWN = 50
LONGEST = 10.0  # seconds between two looks that are compared: no page was open for longer, and "in the last second" would be hours


def grown(before: float | None, now: float) -> float | None:
    """What a counter has grown by; None at the first look, or when it was set back."""
    return None if before is None or now < before else now - before


class Samples:
    """Differences from look to look. A daemon that was started anew begins them anew, and so does the first look after a pause."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._at = 0.0
        self._shown: float | None = None
        self._delivered: dict[int, float] = {}
        self._decisions: dict[str, dict[str, float]] = {}
        self._sent: dict[str, float] = {}

    def take(self, wall: float, at: float, status: dict[str, Any], flows: list[dict[str, Any]]) -> dict[str, Any]:
        """What a page needs of this second. wall: UNIX time, at: monotonic, both in seconds.

        `point` is what charts keep: `t`, `links` by name (`goodput_mbps`, `rtt_ms`, `signal_dbm`, `packet_time_ms`; null: not known) and
        `decisions` by module (pairs of reason and count, the most frequent first). The rest is the state now.
        """
        again = status.get("pid") == self._pid and at - self._at <= LONGEST
        seconds = at - self._at if again and at > self._at else None
        if not again:
            self._delivered, self._decisions, self._sent = {}, {}, {}
        # Charts keep what is later than the point before: a clock that was set back must not stop them.
        self._shown = wall if self._shown is None or wall > self._shown else self._shown + max(at - self._at, 0.001)
        rates = self._rates(flows, seconds)
        told = status.get("links", {})
        links = {name: told[name] for name in sorted(told, key=lambda name: (name == "cell", name))}  # Wi-Fi first, everywhere
        sample = {
            "point": {"t": round(self._shown, 3), "links": {name: self._link(name, link, flows, rates) for name, link in links.items()},
                      "decisions": self._decided(status.get("modules", []), seconds)},
            "version": status.get("version", ""), "uptime_s": status.get("uptime_s"), "problems": _problems(status),
            "cell_bytes": status.get("datapath", {}).get("cell_bytes"),
            "links": self._links(links, seconds),
            "modules": [{key: module.get(key) for key in ("name", "summary", "enabled", "in_force", "in_force_why", "flows", "faults", "evidence", "cell_bytes")}
                        for module in status.get("modules", [])],
            "flow_count": len(flows), "flows": busiest(flows, rates),
        }
        self._pid, self._at = status.get("pid"), at
        return sample

    def _rates(self, flows: list[dict[str, Any]], seconds: float | None) -> dict[int, float]:
        """Mb/s of each flow since the look before. Of one that was not told then only what it has brought since it began counts."""
        before, self._delivered = self._delivered, {flow["id"]: flow.get("delivered_bytes", 0) for flow in flows}
        if seconds is None:
            return {}
        young = {flow["id"]: 0.0 for flow in flows if flow.get("age_s", 0.0) <= 2 * seconds}
        return {number: (grown(before.get(number, young.get(number)), now) or 0.0) * 8e-6 / seconds for number, now in self._delivered.items()}

    @staticmethod
    def _link(name: str, link: dict[str, Any], flows: list[dict[str, Any]], rates: dict[int, float]) -> dict[str, float | None]:
        mine = [(rates.get(flow["id"], 0.0), flow.get("rtt_ms") or 0.0) for flow in flows if flow.get("link") == name]
        weights = sum(rate for rate, rtt in mine if rtt > 0)
        radio = link.get("radio", {})
        time = radio.get("packet_time_us")
        return {"goodput_mbps": round(sum(rate for rate, _ in mine), 3) if rates or not flows else None,
                "rtt_ms": round(sum(rate * rtt for rate, rtt in mine) / weights, 2) if weights else None,
                "signal_dbm": radio.get("signal_dbm"), "packet_time_ms": None if time is None else round(time * 1e-3, 3)}

    def _decided(self, modules: list[dict[str, Any]], seconds: float | None) -> dict[str, list[tuple[str, float]]]:
        """What each module has decided since the look before: reasons and how often; modules that decided nothing are left out.

        A reason that was not there then has come since.
        """
        before, self._decisions = self._decisions, {module["name"]: module.get("decisions", {}) for module in modules}
        if seconds is None:
            return {}
        found = {}
        for name, reasons in self._decisions.items():
            counts = [(why, grown(before.get(name, {}).get(why, 0), count)) for why, count in reasons.items()]
            if some := sorted(((why, count) for why, count in counts if count), key=lambda pair: -pair[1]):
                found[name] = some
        return found

    def _links(self, links: dict[str, Any], seconds: float | None) -> list[dict[str, Any]]:
        before, self._sent = self._sent, {name: link.get("bytes_out", 0) for name, link in links.items()}
        shown = []
        for name, link in links.items():
            more = grown(before.get(name), self._sent[name])
            shown.append({"name": name, **{key: link.get(key) for key in ("interface", "present", "up", "carrier", "bytes_out")},
                          "bytes_out_per_s": more / seconds if seconds and more is not None else None})
        return shown


def _problems(status: dict[str, Any]) -> list[str]:
    """What a user must know before anything else; modules that are on do nothing while hands are off."""
    off = status.get("hands_off")
    return ([f"hands off all flows: {off}"] if off else []) + (status.get("problems") or [])


def busiest(flows: list[dict[str, Any]], rates: dict[int, float]) -> list[dict[str, Any]]:
    """The flows that are shown, the fastest first; `now_mbps` is the goodput since the look before."""
    kept = ("id", "local", "remote", "link", "age_s", "idle_s", "rtt_ms", "rtt_min_ms", "delivered_bytes", "bypass", "excluded", "closed", "sender", "content", "modules", "rests")
    order = sorted(flows, key=lambda flow: (-rates.get(flow["id"], 0.0), flow.get("idle_s", 0.0)))[:FLOWS_SHOWN]
    return [{**{key: flow[key] for key in kept if key in flow}, "now_mbps": round(rates.get(flow["id"], 0.0), 3)} for flow in order]
