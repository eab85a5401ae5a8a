"""The bench `applications`: its cells, goals and rows, with made-up runs; and its traffic against a server that speaks HTTP."""

from __future__ import annotations

import itertools
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator

import pytest

from tandem_bench import app_traffic
from tandem_bench.benches import applications
from tandem_bench.model import Run


@pytest.mark.parametrize("trouble", applications.TROUBLES)
def test_each_application_meets_each_trouble_in_a_scenario_that_can_be_read(trouble: str) -> None:
    cells = [cell for cell in applications.covering_cells() if cell.trouble == trouble]
    assert {cell.what for cell in cells} == set(app_traffic.DOES) == set(applications.SAYS)
    for cell in cells:
        assert tomllib.loads(cell.scenario)["server"][0]["congestion"] == cell.sender


def test_cells_have_names_of_their_own_and_cover_every_sender_and_phy_of_an_application() -> None:
    cells = applications.covering_cells()
    assert len({cell.name for cell in cells}) == len(cells) == 40
    met = {(cell.what, cell.sender, cell.phy) for cell in cells}
    assert met == set(itertools.product(app_traffic.DOES, applications.SENDERS, applications.PHYS))


def test_rows_of_an_application_pair_a_cell_and_a_seed() -> None:
    cases = [case for case in applications.BENCH.cases(False) if case.parameters["cell"].what == "pages"]
    runs = [Run(case.name, arm, seed, 0, 1.0, {"typical wait": wait, "longest wait": wait}, {})
            for case in cases for seed in (1, 2) for arm, wait in (("plain", 2.0), ("all", 1.0))]
    ((row, pooled),) = applications.BENCH.summarise(cases, runs)
    assert row.name == "pages, all cells" and len({run.seed for run in pooled}) == 2 * len(cases)
    assert {run.values["typical wait"] for run in pooled if run.arm == "all"} == {1.0}


def test_the_picture_is_drawn_of_pairs_and_of_nothing_none(tmp_path: Path) -> None:
    case = applications.BENCH.cases(False)[0]
    runs = [Run(case.name, arm, seed, 0, 1.0, {"typical wait": wait, "longest wait": 2 * wait}, {}) for seed in (1, 2) for arm, wait in (("plain", 2.0), ("all", 1.0))]
    assert [file.name for file in applications.BENCH.draw([case], runs, tmp_path)] == ["applications.png"]
    assert applications.BENCH.draw([case], runs[:1], tmp_path / "none") == []


class Answers(BaseHTTPRequestHandler):
    """The bytes that were asked for, on kept connections, after a pause."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, int]] = []
    pause = 0.0
    address = ""

    def do_GET(self) -> None:
        size = int(self.headers["Range"].split("-")[1]) + 1
        self.asked.append((self.path, size))
        time.sleep(self.pause)
        self.send_response(206)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(b"x" * size)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[type[Answers]]:
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    serving.daemon_threads = True
    Answers.asked, Answers.pause, Answers.address = [], 0.0, f"127.0.0.1:{serving.server_port}"
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield Answers
    serving.shutdown()
    serving.server_close()


def test_a_page_is_its_html_and_every_object_once(server: type[Answers]) -> None:
    app_traffic.page(server.address, [700, 800, 900, 700])
    assert server.asked[0] == ("/1M", app_traffic.TYPED)
    assert sorted(size for _, size in server.asked[1:]) == [700, 700, 800, 900]


def test_pages_of_equal_seeds_are_equal(server: type[Answers]) -> None:
    for _ in range(2):
        assert len(app_traffic.pages(server.address, 2, 0.0, 7)) == 2
    half = len(server.asked) // 2
    assert half == 2 * (app_traffic.OBJECTS + 1)
    assert sorted(size for _, size in server.asked[:half]) == sorted(size for _, size in server.asked[half:])


def test_a_segment_that_is_late_is_waited_for(server: type[Answers]) -> None:
    server.pause = 0.1
    began = time.monotonic()
    waits = app_traffic.segments(server.address, 3, 1000, 0.01)
    assert len(waits) == 3 and all(wait >= 0.1 for wait in waits)
    assert time.monotonic() - began >= 0.3


def test_what_is_played_takes_as_long_as_it_plays_and_what_stops_it(server: type[Answers]) -> None:
    (taken,) = app_traffic.played(server.address, 5000, 10_000.0)
    assert taken >= 0.5
    server.pause = 0.3
    (stopped,) = app_traffic.played(server.address, 5000, 10_000.0)
    assert stopped >= 0.7


def test_several_connections_fetch_a_part_each(server: type[Answers]) -> None:
    (taken,) = app_traffic.at_once(server.address, 4, 4000)
    assert taken > 0 and [size for _, size in server.asked] == [1000] * 4


def test_a_download_beside_an_upload_that_cannot_run_is_an_error(server: type[Answers], monkeypatch: pytest.MonkeyPatch) -> None:
    popen = app_traffic.subprocess.Popen
    monkeypatch.setattr(app_traffic.subprocess, "Popen", lambda argv, **options: popen(["false"], **options))
    with pytest.raises(ValueError, match="the upload ended first"):
        app_traffic.beside_upload(server.address, 1000, 1.0)


def test_an_answer_that_ends_early_or_is_none_is_an_error(server: type[Answers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answers, "do_GET", lambda self: self.send_error(404))
    with pytest.raises(ValueError, match="the server answered"):
        app_traffic.paced(server.address, 1000)


def test_each_question_is_answered_and_timed(server: type[Answers]) -> None:
    server.pause = 0.05
    waits = app_traffic.asked(server.address, 3, 0.01)
    assert len(waits) == len(server.asked) == 3 and all(wait >= 0.05 for wait in waits)


def test_files_are_sent_one_after_the_other_and_each_is_had() -> None:
    with app_traffic.Receiver(("127.0.0.1", 0), app_traffic.Taking) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        began = time.monotonic()
        assert len(app_traffic.sent("127.0.0.1", 3, 100_000, 0.1, receiver.server_address[1])) == 3
        assert time.monotonic() - began >= 0.3
        receiver.shutdown()


def test_a_file_that_does_not_arrive_whole_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_traffic.Taking, "handle", lambda self: self.request.sendall((7).to_bytes(8, "big")))
    with app_traffic.Receiver(("127.0.0.1", 0), app_traffic.Taking) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        with pytest.raises((ValueError, OSError)):
            app_traffic.sent("127.0.0.1", 1, 1000, 0.01, receiver.server_address[1])
        receiver.shutdown()
