"""Reading ninja's log: a step counts as it was last run, and the dearest comes first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "testing"))

import build_time  # noqa: E402
from build_time import BadLog, Step, dearest, read_log, report  # noqa: E402

LOG = ("# ninja log v5\n"
       "0\t9000\t1\tsrc/wire/CMakeFiles/tandem_wire.dir/parse.cc.o\tab\n"
       "0\t30000\t1\ttests/unit/wire/CMakeFiles/wire_test.dir/parse_test.cc.o\tcd\n"
       "30000\t60500\t1\tbin/tandemd\tef\n"
       "61000\t63500\t2\tsrc/wire/CMakeFiles/tandem_wire.dir/parse.cc.o\tab\n")


def test_a_step_counts_as_it_was_last_run() -> None:
    steps = {step.output: step.seconds for step in read_log(LOG)}
    assert steps["src/wire/CMakeFiles/tandem_wire.dir/parse.cc.o"] == 2.5
    assert len(steps) == 3


def test_dearest_first_and_equal_ones_by_name() -> None:
    steps = [Step("b", 1.0), Step("c", 2.0), Step("a", 1.0)]
    assert [step.output for step in dearest(steps, 2)] == ["c", "a"]


def test_report_names_units_not_programs_and_sums_by_part() -> None:
    text = report(read_log(LOG), 10)
    assert text.startswith("3 steps, 1.1 minutes one after the other; 2 units compiled, 0.5 minutes")
    assert "  tests: 0.5 minutes" in text
    rows = text.splitlines()[-2:]
    assert rows[0].split(maxsplit=3) == ["30.0", "47.6", "%", "tests/unit/wire/parse_test.cc  (wire_test)"]
    assert rows[1].endswith("src/wire/parse.cc  (tandem_wire)") and "bin/tandemd" not in "".join(rows)


@pytest.mark.parametrize("text", ["", "hello\n", "# ninja log v5\n1\t2\n", "# ninja log v5\na\tb\tc\td\te\n"])
def test_what_is_no_log_is_said_so(text: str) -> None:
    with pytest.raises(BadLog):
        read_log(text)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_time.main([str(tmp_path)]) == 1
    assert "build first" in capsys.readouterr().err
    (tmp_path / ".ninja_log").write_text("no log")
    assert build_time.main([str(tmp_path)]) == 1
    (tmp_path / ".ninja_log").write_text(LOG)
    assert build_time.main([str(tmp_path), "--count", "1"]) == 0
    assert "tandem_wire)" not in capsys.readouterr().out
    with pytest.raises(SystemExit) as wrong:
        build_time.main(["--count", "0"])
    assert wrong.value.code == 2
