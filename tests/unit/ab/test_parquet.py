"""`--parquet`: what notebooks read is what was measured; without pyarrow it is said before anything is."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path

import pytest

from tandem_ab import cli, parquet
from tandem_ab.store import Store


@pytest.fixture
def experiment(tmp_path) -> Path:
    """Two pairs as they lie on the disk, the second one with what is not known."""
    directory = tmp_path / "ab"
    store = Store(directory)
    store.head = {"arms": [{"name": "off", "modules": [], "knobs": {}}, {"name": "offload", "modules": ["offload"], "knobs": {}}], "null": False,
                  "workload": {"kind": "download", "url": "http://a.test/x"}, "unit": "Mb/s", "smaller_is_better": False, "for_s": 10.0, "warm_up_s": 3.0, "washout_s": 2.0, "until": 0.05,
                  "seed": 7, "unvalidated": False, "command": "tandem ab offload", "begun": "2026-11-20 09:15:00 +0000", "machine": "", "version": "0.1.0"}
    store.begin()
    beside = {"cell_bytes": 1200, "daemon_cpu_s": 0.25, "interface": "wlan0", "radio": {"signal_dbm": -55, "mbps": 54}}
    for number in range(2):
        trials = {arm: {"figure": 10.5 + number, "bytes": 13_000_000, "seconds": 10, "wall_s": 13.0, "beside": beside if number == 0 else {}} for arm in ("off", "offload")}
        store.append({"number": number, "began": 1_763_629_000.1234 + 30 * number, "order": ["offload", "off"], "trials": trials, "seconds": 30.0, "discarded": "suspended" if number else ""})
    return directory


def test_rows_types_and_the_experiment(experiment, tmp_path, capsys) -> None:
    try:
        library = parquet.need()
    except parquet.Failure:
        pytest.skip("pyarrow is not installed (tools/install-deps parquet)")
    file = tmp_path / "trials.parquet"
    assert cli.main(["show", str(experiment), "--parquet", str(file)]) == 0 and f"wrote {file}" in capsys.readouterr().err
    table = library.read_table(file)
    rows = table.to_pylist()
    told = list(csv.DictReader(cli.report.as_csv(cli.report.Result(*loaded(experiment))).splitlines()))
    assert list(rows[0]) == list(told[0]) and len(rows) == len(told) == 4
    for row, line in zip(rows, told):
        assert {key: "" if value is None else value for key, value in row.items() if key != "began"} == {
            key: value if isinstance(row[key], str) or value == "" else type(row[key])(float(value)) for key, value in line.items() if key != "began"}
    assert str(table.schema.field("began").type) == "timestamp[ms, tz=UTC]" and rows[0]["began"].timestamp() == pytest.approx(1_763_629_000.123)
    assert str(table.schema.field("bytes").type) == "int64" and str(table.schema.field("figure").type) == "double" and rows[2]["signal_dbm"] is None and rows[0]["place"] == 0
    assert json.loads(table.schema.metadata[b"tandem_ab"])["seed"] == 7
    assert cli.main(["show", str(experiment), "--parquet", str(tmp_path / "no" / "where.parquet")]) == 1 and "name a file in a directory that is there" in capsys.readouterr().err


def loaded(directory: Path):
    store = Store(directory)
    assert store.load()
    return store.head, store.pairs


def test_without_it_nothing_is_measured(experiment, monkeypatch, tmp_path, capsys) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(parquet.importlib, "import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    out = tmp_path / "new"
    assert cli.main(["offload", "--url", "http://a.test/x", "--report", str(out), "--yes", "--parquet", str(tmp_path / "x.parquet"), "--socket", str(tmp_path / "none")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "pip install --no-deps --target" in said and not out.exists()
    assert cli.main(["show", str(experiment), "--parquet", str(tmp_path / "x.parquet")]) == 1 and "pyarrow" in capsys.readouterr().err


def test_it_is_found_in_a_place_of_the_users_own(monkeypatch, tmp_path) -> None:
    place = tmp_path / "tandem/python"
    place.mkdir(parents=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert parquet.places()[0] == place
    if os.geteuid() == 0:
        os.chown(place, 4711, -1)
        assert place not in parquet.places(), "somebody else's"
    place.rmdir()
    assert place not in parquet.places()
