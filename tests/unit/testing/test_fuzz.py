"""Searches with libFuzzer: how long, and what of its words is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "testing"))

import fuzz  # noqa: E402
from progress import Progress  # noqa: E402

SAID = """INFO: seed corpus: files: 18 min: 1b max: 40b total: 500b rss: 40Mb
#19     INITED cov: 300 ft: 800 corp: 15/400b exec/s: 0 rss: 45Mb
#200000 NEW    cov: 744 ft: 2850 corp: 80/1900b lim: 100 exec/s: 60000 rss: 60Mb L: 5/90 MS: 1 CopyPart-
#877389 DONE   cov: 745 ft: 2851 corp: 81/1904b lim: 110 exec/s: 60000 rss: 60Mb
stat::number_of_executed_units: 877389
stat::average_exec_per_sec:     60000
"""
# Instead of a target: burns 0.2 s of the processor, or fails as libFuzzer does.
BURN = "import sys, time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nsys.stderr.write('stat::number_of_executed_units: 10\\n')"
FAIL = "import sys; sys.stderr.write('==1== ERROR: AddressSanitizer\\nTest unit written to /somewhere/crash-0123\\n'); sys.exit(77)"


def test_what_libfuzzer_says_adds_up() -> None:
    found = fuzz.Search("wire_parse", cpu_s=90)
    found.read(SAID)
    found.read(SAID)
    assert (found.runs, found.edges, found.features) == (2 * 877389, 745, 2851)
    assert found.row() == "| wire_parse | 1.5 | 1754778 | 745 / 2851 | nothing |"


def test_the_time_is_the_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "FOUND", tmp_path)
    monkeypatch.setattr(fuzz, "command", lambda target, corpus, seconds: [sys.executable, "-c", BURN])
    found = fuzz.search("wire_parse", tmp_path, 0.5, Progress())
    assert 0.5 <= found.cpu_s < 5 and found.runs in (20, 30) and found.faults == []


def test_what_fails_ends_the_search_and_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fuzz, "FOUND", tmp_path)
    monkeypatch.setattr(fuzz, "command", lambda target, corpus, seconds: [sys.executable, "-c", FAIL])
    found = fuzz.search("wire_parse", tmp_path, 600, Progress())
    assert found.faults == ["crash-0123"] and "AddressSanitizer" in capsys.readouterr().out
    monkeypatch.setattr(fuzz, "command", lambda target, corpus, seconds: [sys.executable, "-c", "raise SystemExit(3)"])
    assert fuzz.search("wire_parse", tmp_path, 600, Progress()).faults == ["exit code 3"]


def test_every_target_of_the_tests_is_known() -> None:
    root = Path(__file__).resolve().parents[2] / "fuzz"
    declared = {line.split("(")[1].split()[0] for file in root.glob("**/CMakeLists.txt") for line in file.read_text().splitlines()
                if line.strip().startswith("tandem_fuzz(")} - {"NAME"}
    assert set(fuzz.targets_of(root)) == declared


@pytest.mark.parametrize("words", [["no_such_target"], ["--minutes", "0"], ["--minutes", "much"]])
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fuzz.main(words)
    assert ended.value.code == 2
