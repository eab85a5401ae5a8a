"""The same as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tandem_common.picture import drawing, save

COLOURS = {"repeated": "#d95f02", "reordered": "#bcbd22", "duplicate": "#8c564b", "sack": "#7570b3", "dsack": "#e7298a", "dup_ack": "#2ca02c", "zero_window": "#d62728", "control": "#ff7f0e", "ecn": "#e6ab02", "injected": "#1b9e77", "edited": "#377eb8", "dropped": "#999999", "request": "#000000", "cell": "#66a61e"}


def picture(title: str, told: dict[str, Any], story: dict[str, Any], path: Path) -> None:
    pyplot = drawing()

    lines, marks = told["lines"], told["marks"]
    panels = [("rate", "Mbit/s", 1.0), ("rtt", "RTT, ms", 1.0), ("window", "window, kB", 1e-3), ("flight", "in flight, kB", 1e-3), ("signal", "signal, dBm", 1.0)]
    below = [panel for panel in panels if lines[panel[0]] or panel[0] == "rate"]
    figure, axes = pyplot.subplots(1 + len(below), 1, sharex=True, figsize=(11, 6 + len(below)), height_ratios=(4, *[1] * len(below)), layout="constrained")

    def line(axis, name, label, colour, scale=1.0, **style):
        if lines[name]:
            axis.plot([x for x, *_ in lines[name]], [y * scale for _, y, *_ in lines[name]], label=label, color=colour, **style)

    top = axes[0]
    line(top, "data", "data sent" if told["upload"] else "data arrived", "#1f77b4", 1e-6, linestyle="", marker=".", markersize=2)
    line(top, "ack", "acknowledged", "#2ca02c", 1e-6, drawstyle="steps-post", linewidth=0.8)
    line(top, "edge", "window", "#d62728", 1e-6, drawstyle="steps-post", linewidth=0.6)
    for name, label in (("repeated", "retransmission"), ("reordered", "out of order"), ("duplicate", "arrived twice"), ("sack", "SACK"), ("dsack", "D-SACK")):
        if marks[name]:
            top.vlines([m[0] for m in marks[name]], [m[1] * 1e-6 for m in marks[name]], [m[2] * 1e-6 for m in marks[name]], color=COLOURS[name], label=label, linewidth=1.2)
    for name, sign, label in (("dup_ack", "|", "duplicate ACK"), ("zero_window", "$0$", "window zero"), ("control", "D", "SYN, FIN, RST"), ("ecn", "s", "CE, ECE, CWR"), ("injected", "^", "injected"), ("edited", "x", "edited"),
                              ("dropped", "|", "thinned"), ("request", "v", "answer" if told["upload"] else "request"), ("cell", ".", "by cellular")):
        if marks[name]:
            top.plot([m[0] for m in marks[name]], [m[1] * 1e-6 for m in marks[name]], marker=sign, linestyle="", color=COLOURS[name], label=label, markersize=4)
    top.set_ylabel("MB")
    top.set_title(title, fontsize=10)
    for axis, (name, label, scale) in zip(axes[1:], below):
        line(axis, name, label, "#1f77b4", scale, linewidth=0.8, **({"drawstyle": "steps-post", "marker": "."} if name == "signal" else {}))
        axis.set_ylabel(label, fontsize=8)
    for name, depth, words in (("risk", 0.08, "blackout predicted"), ("down", 0.22, "Wi-Fi down")):
        for number, (begin, end) in enumerate(told[name]):
            for axis in axes:
                axis.axvspan(begin, end, color="#d62728", alpha=depth, linewidth=0, label=words if number == 0 and axis is top else None)
    for stall in story["stalls"]:
        for axis in axes:
            axis.axvspan(stall["begin_s"], stall["end_s"], color="#ffd54f", alpha=0.35, linewidth=0)
        top.annotate(stall["cause"].replace("_", " "), ((stall["begin_s"] + stall["end_s"]) / 2, 0.02), xycoords=("data", "axes fraction"), ha="center", fontsize=8)
    if top.get_legend_handles_labels()[0]:
        top.legend(loc="upper left", fontsize=8)
    axes[-1].set_xlabel("seconds since the start of the recording")
    save(figure, path)
    pyplot.close(figure)
