"""`tandem logs` with a journal of the test's own: the real systemd-journald, the real daemon, in namespaces with nothing else in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tandem_lab import system, virtual

JOURNALD = Path("/lib/systemd/systemd-journald")

# Nothing of the machine's journal is seen or touched: /run and /var/log are other ones here.
SCRIPT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mount -t tmpfs none /var/log
mkdir /var/log/journal # of the package, where no journald has ever run
tandem() { "$BIN/tandem" --socket "$PLACE/run/control.sock" "$@"; }
tandem logs > "$PLACE/without.out" 2> "$PLACE/without.err" || echo $? > "$PLACE/without.code"

mkdir -p /run/systemd/journal /run/log/journal
"$JOURNALD" > "$PLACE/journald.log" 2>&1 &
for i in $(seq 100); do [ -S /run/systemd/journal/stdout ] && break; sleep 0.1; done
# As systemd starts a service; systemd-cat 252 leaves the variable out.
systemd-cat sh -c 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/2) exec "$BIN/tandemd" -c "$PLACE/tandem.toml"' &
daemon=$!
for i in $(seq 100); do tandem status > /dev/null 2>&1 && break; sleep 0.1; done
tandem enable freeze
tandem set offload.window_mss 30
tandem module offload on
journalctl --sync
tandem logs --json > "$PLACE/all"
tandem logs --module offload --json > "$PLACE/offload"
tandem logs --module offload --json --lines 1 > "$PLACE/last"
tandem logs --since 2100-01-01 --json > "$PLACE/future"
tandem logs --module 'a b' 2> /dev/null || echo $? > "$PLACE/bad.code"
timeout 2 "$BIN/tandem" logs --follow --json > "$PLACE/followed" || true
touch "$PLACE/run/tandemd.log"
tandem logs --lines 1 > /dev/null 2> "$PLACE/hint"
kill $daemon
wait $daemon
kill %1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if virtual.inside():
        pytest.skip("systemd-journald takes no connection in the kernel of virtual time")
    if lacks := [name for name in ("journalctl", "systemd-cat", "unshare") if not shutil.which(name)] + [str(path) for path in [JOURNALD] if not path.exists()]:
        pytest.skip(f"missing: {', '.join(lacks)}")
    made = tmp_path_factory.mktemp("logs")
    (made / "tandem.toml").write_text(f'[links]\ncell = "none"\n[daemon]\nsocket = "{made}/run/control.sock"\nsaved_directory = "{made}/lib/saved"\n[evidence]\nshare = 0\npaths = false\n'
                                      '[budget]\ncell_day = ""\ncell_month = ""\n[cell]\nmetered = "ignore"\nroaming = "budget"\n')
    done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", SCRIPT], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PLACE": str(made), "BIN": str(system.tandem_binary("tandemd").parent), "JOURNALD": str(JOURNALD)})
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def entries(place: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (place / name).read_text().splitlines()]


def test_entries_carry_the_module_that_they_are_about(place: Path) -> None:
    told = entries(place, "all")
    assert all(entry["_TRANSPORT"] == "journal" and entry["_COMM"] == "tandemd" for entry in told), "not by the stream of standard error, which has no fields"
    about = [(entry.get("MODULE"), entry["MESSAGE"].split(") ", 1)[-1], entry["PRIORITY"]) for entry in told if "control: uid" in entry["MESSAGE"]]
    assert about == [("freeze", 'switches module "freeze" on, saving', "6"), ("offload", 'sets "offload.window_mss" to "30"', "6"), ("offload", 'switches module "offload" on', "6")]
    ready = [entry for entry in told if " ready, control socket " in entry["MESSAGE"]]
    assert len(ready) == 1 and "MODULE" not in ready[0] and ready[0]["PRIORITY"] == "5" and not ready[0]["MESSAGE"].startswith(("tandemd:", "<"))


def test_a_module_and_the_latest_may_be_chosen(place: Path) -> None:
    assert {entry["MODULE"] for entry in entries(place, "offload")} == {"offload"} and len(entries(place, "offload")) == 2
    assert [entry["MESSAGE"] for entry in entries(place, "last")] == [entries(place, "offload")[-1]["MESSAGE"]]
    assert entries(place, "future") == [] and (place / "bad.code").read_text() == "2\n"
    assert {entry["__CURSOR"] for entry in entries(place, "offload")} <= {entry["__CURSOR"] for entry in entries(place, "followed")}


def test_without_a_journal_it_says_so_and_where_else_to_look(place: Path) -> None:
    assert (place / "without.code").read_text() == "1\n" and (place / "without.out").read_text() == ""
    assert "no journal is kept here" in (place / "without.err").read_text()
    assert f"writes to {place}/run/tandemd.log; this is the journal" in (place / "hint").read_text()
