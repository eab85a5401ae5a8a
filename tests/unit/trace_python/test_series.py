"""What a plot shows of a flow."""

from __future__ import annotations

import json
import re
import time

from tandem_trace import cli, reader, series
from tandem_trace.series import Marks, Thinned, Unwrapped


def told(file, flow=1):
    story = reader.story(file, flow)
    return series.of_packets(reader.packets(file, flow), story["first_ns"]), story


def test_numbers_do_not_wrap():
    number = Unwrapped()
    assert [number(n) for n in (0xFFFFFF00, 0, 0x100, 0xFFFFFFF0)] == [0, 0x100, 0x200, 0xF0]


def test_a_line_keeps_its_extremes():
    line = Thinned(most=400)
    for i in range(100_000):
        line.add(i * 1e-3, 1000 if i == 43_217 else -7 if i == 77_777 else 5)
    points = line.points()
    assert len(points) <= 500 and (43.217, 1000) in points and (77.777, -7) in points
    assert points[0][0] == 0 and abs(points[-1][0] - 99.999) < 1e-9 and points == sorted(points)


def test_marks_left_out_are_counted():
    marks = Marks(most=100)
    for i in range(1000):
        marks.add(i)
    assert marks.count == 1000 and 25 <= len(marks.kept) <= 101


def test_a_download_in_numbers(golden):
    shown, story = told(golden / "radio-silent.pcap")
    assert shown["packets"] == story["packets"]
    assert shown["lines"]["data"][-1][1] == story["bytes_in"]
    assert shown["lines"]["ack"][-1][1] >= 600_000
    assert min(v for _, v in shown["lines"]["rtt"]) > 40
    assert shown["marks"]["repeated"] and shown["marks"]["sack"]
    begin, end = story["stalls"][0]["begin_s"], story["stalls"][0]["end_s"]
    assert not [t for t, _ in shown["lines"]["data"] if begin + 0.01 < t < end - 0.1]
    # The window's edge lies above what is acknowledged, by a scaled window.
    assert max(v for _, v in shown["lines"]["window"]) > 65_535


def test_decisions_have_their_reasons(golden):
    shown, _ = told(golden / "tandem.pcapng")
    reasons = {mark[3] for mark in shown["marks"]["edited"]}
    assert "freeze: window stays closed" in reasons
    assert "freeze: window closed, blackout predicted" in {mark[3] for mark in shown["marks"]["injected"]}


def test_millions_of_packets_fit():
    def packets():
        for i in range(200_000):
            yield {"time_ns": i * 10_000, "way": "in", "disposition": "-", "why": "", "link": "-", "number": i + 1,
                   "tcp": {"seq": i * 1448 & 0xFFFFFFFF, "ack": 1, "window": 500, "length": 1448, "flags": ".", "ts": [i // 100, 0]}}

    began = time.monotonic()
    shown = series.of_packets(packets(), 0)
    assert len(shown["lines"]["data"]) < 10_000 and shown["lines"]["data"][-1][1] == 200_000 * 1448
    assert time.monotonic() - began < 60


def test_page_is_one_file_with_the_data(golden, tmp_path):
    page = tmp_path / "page.html"
    assert cli.main(["plot", str(golden / "queue.pcap"), "--flow", "2", "-o", str(page)]) == 0
    text = page.read_text()
    assert not re.search(r"(?:src|href)\s*=|https?://", text), "nothing from elsewhere"
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1].replace("<\\/", "</"))
    assert data["packets"] > 1000 and data["story"]["flow"] == 2


def test_picture(golden, tmp_path):
    from PIL import Image

    picture = tmp_path / "plot.png"
    assert cli.main(["plot", str(golden / "tandem.pcapng"), "-o", str(picture)]) == 0
    assert Image.open(picture).size[0] > 1000


def test_what_is_wrong_is_said(golden, tmp_path, capsys):
    assert cli.main(["plot", str(golden / "queue.pcap"), "--flow", "9", "-o", str(tmp_path / "x.html")]) == 2
    assert "no flow 9; it has 2" in capsys.readouterr().err
    assert cli.main(["plot", str(golden / "queue.pcap"), "-o", str(tmp_path / "x.jpg")]) == 2
    assert ".html or .png" in capsys.readouterr().err
    assert cli.main(["plot", str(tmp_path / "none.pcap"), "-o", str(tmp_path / "x.html")]) == 2
    assert "cannot be opened for reading" in capsys.readouterr().err
    assert cli.main(["plot", str(golden / "queue.pcap"), "-o", str(tmp_path / "no/x.html")]) == 1
