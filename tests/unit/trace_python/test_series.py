"""What a plot shows of a flow."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time

import pytest

from tandem_trace import cli, page, reader, series
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


def test_round_trips_are_known_to_the_end_of_a_long_recording(monkeypatch):
    """Most clock values are never echoed; those that are come back within a round trip."""
    monkeypatch.setattr(series, "MOST_ECHOES", 100)

    def packets():
        for number in range(1000):
            for way, ts, late in (("out", [number, 0], 0), ("in", [7, number], 30_500_000)):
                if way == "out" or number % 10 == 0:
                    yield {"number": number, "time_ns": number * 1_000_000 + late, "way": way, "link": "wifi", "disposition": "-", "why": "",
                           "tcp": {"seq": 1, "ack": 1, "window": 500, "length": 0, "flags": ".", "ts": ts}}

    trips = series.of_packets(sorted(packets(), key=lambda one: one["time_ns"]), 0)["lines"]["rtt"]
    assert len(trips) == 100 and trips[-1] == pytest.approx((1.0205, 30.5))


def test_a_download_in_numbers(golden):
    shown, story = told(golden / "radio-silent.pcap")
    assert shown["packets"] == story["packets"]
    assert shown["lines"]["data"][-1][1] == story["bytes_in"]
    assert shown["lines"]["ack"][-1][1] >= 600_000
    assert min(v for _, v in shown["lines"]["rtt"]) > 40
    assert shown["marks"]["repeated"] and shown["marks"]["sack"]
    begin, end = story["stalls"][0]["begin_s"], story["stalls"][0]["end_s"]
    assert not [t for t, *_ in shown["lines"]["data"] if begin + 0.01 < t < end - 0.1]
    # The window's edge lies above what is acknowledged, by a scaled window.
    assert max(v for _, v in shown["lines"]["window"]) > 65_535


def test_decisions_have_their_reasons(golden):
    shown, _ = told(golden / "tandem.pcapng")
    reasons = {mark[3] for mark in shown["marks"]["edited"]}
    assert "freeze: window stays closed" in reasons
    assert "freeze: window closed, blackout predicted" in {mark[3] for mark in shown["marks"]["injected"]}


def segment(number, way, seq, ack=1, length=0, flags=".", window=500, clock=0, disposition="-", **more):
    tcp = {"seq": seq & 0xFFFFFFFF, "ack": ack, "window": window, "length": length, "flags": flags, "ts": [clock, 0], **{key: more.pop(key) for key in ("sack", "scale", "ecn") if key in more}}
    return {"time_ns": number * 1_000_000, "way": way, "disposition": disposition, "why": "", "link": "-", "number": number, "tcp": tcp, **more}


def test_every_sign_of_the_segments_is_told():
    start = 0xFFFFFF00  # numbers wrap on the way
    told = series.of_packets([
        segment(1, "out", 1, flags="SEW", scale=7), segment(2, "in", start - 1, flags="S.", scale=7), segment(3, "out", 2, start, length=90),
        segment(4, "in", start, length=1000, flags=".P", clock=10), segment(5, "out", 2, start + 1000 & 0xFFFFFFFF),
        segment(6, "in", start + 2000, length=1000, clock=20), segment(7, "out", 2, start + 1000 & 0xFFFFFFFF, sack=[[start + 2000 & 0xFFFFFFFF, start + 3000 & 0xFFFFFFFF]]),
        segment(8, "in", start + 4000, length=1000, clock=22, ecn="ce"), segment(9, "in", start + 3000, length=1000, clock=21), segment(10, "in", start + 1000, length=1000, clock=60, flags=".W"),
        segment(11, "in", start + 1000, length=1000, clock=61), segment(12, "out", 2, start + 5000 & 0xFFFFFFFF, sack=[[start + 1000 & 0xFFFFFFFF, start + 2000 & 0xFFFFFFFF]], flags=".E"),
        segment(13, "out", 2, start + 5000 & 0xFFFFFFFF, window=0), segment(14, "in", start + 5000, flags=".F"), segment(15, "out", 2, flags="R")], 0)
    packets = {name: [mark[-1] for mark in marks] for name, marks in told["marks"].items() if marks}
    assert packets == {"control": [1, 2, 14, 15], "push": [4], "request": [3], "dup_ack": [7], "sack": [7], "reordered": [9], "repeated": [10], "duplicate": [11], "dsack": [12], "zero_window": [13],
                       "ecn": [8, 10, 12]}
    assert [mark[2] for mark in told["marks"]["ecn"]] == ["the server's CE", "the server's CWR", "the laptop's ECE"] and told["marks"]["control"][3][2] == "the laptop's RST"
    assert told["lines"]["data"][0][1:] == (1000, 0) and told["lines"]["edge"][0][1] == 500 << 7 and not told["upload"]


def test_of_copies_nothing_is_said_to_have_come_twice():
    told = series.of_packets([segment(1, "in", 0, length=1000, disposition="observed"), segment(2, "in", 5000, length=1000, disposition="observed"), segment(3, "in", 0, length=1000, disposition="observed")], 0)
    assert [mark[3] for mark in told["marks"]["repeated"]] == [3] and not told["marks"]["duplicate"]


def test_an_upload_is_drawn_by_what_the_laptop_sends():
    told = series.of_packets([
        segment(1, "out", 0, flags="S", scale=7), segment(2, "in", 0, flags="S.", scale=5), segment(3, "out", 1, length=1000), segment(4, "out", 1001, length=1000, disposition="edited", change="by cell", why="offload: x", after_link="cell"),
        segment(5, "in", 1, 1001), segment(6, "out", 1001, length=1000), segment(7, "in", 1, 2001, length=10)], 0, upload=True)
    assert [point[1:] for point in told["lines"]["data"]] == [(1000, 0), (2000, 1000)] and told["lines"]["ack"][-1][1] == 2000 and told["upload"]
    assert [point[1] for point in told["lines"]["flight"]] == [1000, 1000, 0] and told["lines"]["edge"][0][1] == 1000 + (500 << 5)
    assert [mark[3] for mark in told["marks"]["repeated"]] == [6] and told["marks"]["request"][0][2:] == (10, 7) and told["marks"]["cell"][0][1] == told["marks"]["edited"][0][1] == 1000


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_the_panels_are_read_together_at_the_pointer(golden, tmp_path):
    page = tmp_path / "page.html"
    assert cli.main(["plot", str(golden / "radio-silent.pcap"), "-o", str(page)]) == 0
    point = "canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: canvas.getBoundingClientRect().left + 500, clientY: canvas.getBoundingClientRect().top + 100}));"
    page.write_text(page.read_text().replace("</html>", f"<script>{point}</script></html>"))
    shown = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,900", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
                           capture_output=True, text=True, timeout=60, check=True).stdout
    values = re.search(r'<p id="values">(.*?)</p>', shown, re.S)[1]
    assert re.fullmatch(r"1\.\d+ s: data arrived 0\.\d+ MB, acknowledged 0\.\d+ MB, window's edge 0\.\d+ MB, rate 0\.0000 Mbit/s, round trip [\d.]+ ms, window [\d.]+ kB", values), values
    assert 'id="hair" style="display: block' in shown


def test_millions_of_packets_fit():
    def packets():
        for i in range(200_000):
            yield {"time_ns": i * 10_000, "way": "in", "disposition": "-", "why": "", "link": "-", "number": i + 1,
                   "tcp": {"seq": i * 1448 & 0xFFFFFFFF, "ack": 1, "window": 500, "length": 1448, "flags": ".", "ts": [i // 100, 0]}}

    began = time.monotonic()
    shown = series.of_packets(packets(), 0)
    assert len(shown["lines"]["data"]) < 10_000 and shown["lines"]["data"][-1][1] == 200_000 * 1448
    assert time.monotonic() - began < 60


def test_a_clock_that_is_set_makes_no_years_of_points():
    def packets():
        for i, at in enumerate((0, 0.05, 0.5, 50 * 365 * 86400)):
            yield {"time_ns": int(at * 1e9), "way": "in", "disposition": "-", "why": "", "link": "-", "number": i + 1,
                   "tcp": {"seq": i * 1000, "ack": 1, "window": 500, "length": 1000, "flags": "."}}

    shown = series.of_packets(packets(), 0)
    assert [round(v, 3) for _, v in shown["lines"]["rate"]] == [0.16, 0, 0, 0.08, 0, 0, 0.08]


def test_nothing_that_was_recorded_ends_the_pages_script():
    hostile = "</script><!--<script>"
    text = page.page("a@DATA@b <i>", {"lines": {}, "why": hostile}, {"stalls": []})
    assert text.count("<script") == page.TEMPLATE.read_text().count("<script") and "<!--" not in text and text.count('"why"') == 1
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["why"] == hostile and "<title>a@DATA@b &lt;i&gt;</title>" in text


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


LINKS = [{"at_s": 0.0, "link": "wifi", "up": True, "at_risk": False, "signal_dbm": -60.0}, {"at_s": 0.0, "link": "cell", "up": False, "at_risk": False},
         {"at_s": 2.0, "link": "wifi", "up": True, "at_risk": True, "signal_dbm": -75.0}, {"at_s": 3.0, "link": "wifi", "up": False, "at_risk": True},
         {"at_s": 3.5, "link": "wifi", "up": False, "at_risk": False}, {"at_s": 5.0, "link": "wifi", "up": True, "at_risk": False, "signal_dbm": -65.0},
         {"at_s": 9.0, "link": "wifi", "up": False, "at_risk": False}]


def test_the_wifi_link_while_the_flow_lasted():
    assert series.of_links({"begin_s": 1.0, "end_s": 6.0, "links": LINKS}) == {"signal": [(1.0, -60.0), (2.0, -75.0), (5.0, -65.0)], "down": [(3.0, 5.0)], "risk": [(2.0, 3.5)]}
    assert series.of_links({"begin_s": 3.2, "end_s": 4.0, "links": LINKS}) == {"signal": [], "down": [(3.2, 4.0)], "risk": [(3.2, 3.5)]}
    assert series.of_links({"begin_s": 1.0, "end_s": 6.0}) == {"signal": [], "down": [], "risk": []}


def test_links_are_in_page_and_picture(golden, tmp_path, monkeypatch):
    real = reader.story
    monkeypatch.setattr(reader, "story", lambda file, flow: {**real(file, flow), "links": LINKS[:2] + [{"at_s": 0.5, "link": "wifi", "up": False, "at_risk": False}]})
    page = tmp_path / "page.html"
    assert cli.main(["plot", str(golden / "tandem.pcapng"), "-o", str(page)]) == 0
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)[1].replace("<\\/", "</"))
    assert data["lines"]["signal"] and data["down"][0][0] == 0.5 and data["risk"] == [] and "links" not in data["story"]
    assert cli.main(["plot", str(golden / "tandem.pcapng"), "-o", str(tmp_path / "x.png")]) == 0
    from PIL import Image

    with_signal = Image.open(tmp_path / "x.png").size
    monkeypatch.undo()
    assert cli.main(["plot", str(golden / "tandem.pcapng"), "-o", str(tmp_path / "y.png")]) == 0
    assert with_signal[1] > Image.open(tmp_path / "y.png").size[1], "a panel more"
