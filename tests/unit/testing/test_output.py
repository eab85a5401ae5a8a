"""The tools in Python whose output cannot be written end with words, not with a traceback; and the signals that end them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path.insert(0, str(TOOLS / "common"))

from tandem_common import signals  # noqa: E402

PROGRAMS = {"lab/lab.py": "tandem lab", "ab/ab.py": "tandem ab", "bench/bench.py": "tandem bench", "dashboard/dashboard.py": "tandem dashboard", "relay/relay.py": "tandem relay",
            "trace/trace.py": "tandem trace", "sim/sim.py": "tandem sim", "soak": "tools/soak", "trace/live.py": "tandem-live", "ab/over_lab.py": "tools/ab/over_lab.py",
            "lab/demo.py": "tools/demo", "lab/speed.py": "speed.py"}


def run(program: str, *words: str, unbuffered: bool = False, **streams) -> subprocess.CompletedProcess:
    if program in ("ab/ab.py", "bench/bench.py"):
        pytest.importorskip("numpy")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"} | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})
    return subprocess.run([sys.executable, "-B", str(TOOLS / program), *words], env=environment, stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_that_cannot_be_written_is_told(program: str, unbuffered: bool) -> None:
    with open("/dev/full", "w") as full:
        done = run(program, "--help", unbuffered=unbuffered, stdout=full)
    assert (done.returncode, done.stderr) == (1, f"{PROGRAMS[program]}: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("words", [("lab/lab.py", "--help"), ("bench/bench.py", "--help"), ("sim/sim.py", "--help")])
def test_nobody_is_told_that_the_reader_has_gone(words: tuple[str, ...], unbuffered: bool) -> None:
    there, here = os.pipe()
    os.close(there)
    try:
        done = run(*words, unbuffered=unbuffered, stdout=here)
    finally:
        os.close(here)
    assert (done.returncode, done.stderr) == (1, "")


def test_wrong_usage_stays_so_and_faults_of_other_files_are_no_matter_of_the_output() -> None:
    with open("/dev/full", "w") as full:
        done = run("lab/lab.py", "nonsense", stdout=full)
    assert done.returncode == 2 and "cannot be written" not in done.stderr
    code = ("import sys; sys.path.insert(0, sys.argv[1])\nfrom tandem_common.output import written_out\n"
            "with written_out('x'):\n    open('/dev/full', 'w', buffering=1).write('one\\n')")
    done = subprocess.run([sys.executable, "-B", "-c", code, str(TOOLS / "common")], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" in done.stderr and "the output" not in done.stderr


@pytest.mark.parametrize("unbuffered", [False, True])
def test_output_closed_from_the_first_is_wanted_by_nobody(unbuffered: bool) -> None:
    done = run("lab/lab.py", "list", unbuffered=unbuffered, preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_written_comes_as_it_did() -> None:
    code = ("import sys; sys.path.insert(0, sys.argv[1])\nfrom tandem_common.output import written_out\n"
            "with written_out('x'):\n    print('gr\\u00fcn', flush=True)\n    sys.stdout.buffer.write(b'\\xff\\n')\n    print(sys.stdout.isatty())\n    sys.exit(3)")
    done = subprocess.run([sys.executable, "-B", "-X", "utf8", "-c", code, str(TOOLS / "common")], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "grün\n".encode() + b"\xff\nFalse\n", b"")


def test_the_terminals_end_ends_nothing_where_nohup_has_it_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert signals.that_end() == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert signals.that_end() == [signal.SIGINT, signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nobody_else_asks_for_that_signal() -> None:
    """A list of signals of its own would end a run that is meant to outlive its terminal. The supervisor of a lab has a session of its own."""
    own = {TOOLS / "lab" / "tandem_lab" / "supervisor.py", TOOLS / "common" / "tandem_common" / "signals.py"}
    found = {path for path in TOOLS.rglob("*.py") if "signal.SIGTERM, signal.SIGHUP" in path.read_text() or "signal.signal(signal.SIGHUP" in path.read_text()}
    assert found - own == set()
