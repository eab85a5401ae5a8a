"""The results: one row for each run in an SQLite file, written as soon as the run ends."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any, Iterator, Mapping

from tandem_common.whole import written_whole

from .program import SimError

MOST_FLOWS = 8  # of each run with columns of their own
RESULTS = ("share", "optimum_mbps", "events", "virtual_seconds", "wall_seconds", "mbps", "mbps_all", "finished", "key", "program", "scenario", "error")


def flatten(result: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of one run. mbps is that of the first flow; flow1_sub0_cwnd names flow, subflow and quantity."""
    out: dict[str, Any] = {}
    for key in ("share", "optimum_mbps", "events", "virtual_seconds", "wall_seconds"):
        if key in result:
            out[key] = result[key]
    flows = result["flows"]
    out["mbps"] = flows[0]["mbps"]
    out["mbps_all"] = sum(flow["mbps"] for flow in flows)
    out["finished"] = flows[0]["finished"]
    for number, flow in enumerate(flows[:MOST_FLOWS]):
        if number > 0:
            out[f"flow{number}_mbps"] = flow["mbps"]
        for index, subflow in enumerate(flow["subflows"]):
            for key, value in subflow.items():
                out[f"flow{number}_sub{index}_{key}"] = value
    for link in result["links"]:
        for key, value in link.items():
            if key != "name":
                out[f"link_{link['name']}_{key}"] = value
    client = result["client"]
    for index, rate in enumerate(client.get("ce_rate", [])):
        out[f"ce_rate{index}"] = rate
        out[f"marked{index}"] = client["marked"][index]
    for key in ("rerouted", "dropped", "edited", "injected"):
        out[f"client_{key}"] = client[key]
    return out


class Table:
    """A setting whose name is that of a result has the column set_NAME. Rows are keyed by scenario, settings and program. Safe against kill -9: SQLite's log, a commit for each row."""

    def __init__(self, file: Path):
        self._file = file
        try:
            self._base = sqlite3.connect(file, timeout=30)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute("CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, program TEXT, scenario TEXT, error TEXT)")
            self._base.execute("CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT)")
            self._columns = {row[1].lower() for row in self._base.execute("PRAGMA table_info(runs)")}
        except sqlite3.DatabaseError as error:
            raise SimError(f"{file}: {error}; give another --out") from error

    @staticmethod
    def key(scenario: str, settings: Mapping[str, Any], description: Any) -> str:
        return json.dumps([scenario, dict(settings), description], sort_keys=True, separators=(",", ":"))

    def about(self, facts: Mapping[str, Any]) -> None:
        self._base.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", [(key, str(value)) for key, value in facts.items()])
        self._base.commit()

    def done(self, program: str) -> set[str]:
        """Keys of the runs that this program has brought."""
        return {row[0] for row in self._base.execute("SELECT key FROM runs WHERE program = ? AND error IS NULL", (program,))}

    def add(self, key: str, program: str, scenario: str, settings: Mapping[str, Any], values: Mapping[str, Any], error: str | None) -> None:
        row: dict[str, Any] = {"key": key, "program": program, "scenario": scenario, "error": error}
        for name, value in settings.items():
            plain = value if isinstance(value, (int, float, str)) else json.dumps(value)
            row[f"set_{name}" if name in RESULTS else name] = plain
        row |= values
        for name in row:
            if name.lower() not in self._columns:
                self._add_column(name)
        names = ", ".join(f'"{self._quoted(name)}"' for name in row)
        try:
            self._base.execute(f"INSERT OR REPLACE INTO runs ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
            self._base.commit()
        except sqlite3.DatabaseError as error:  # a full disk, say
            raise SimError(f"{self._file}: {error}; what was written before is kept, and the same command goes on from there") from error

    def _add_column(self, name: str) -> None:
        try:
            self._base.execute(f'ALTER TABLE runs ADD COLUMN "{self._quoted(name)}"')
        except sqlite3.DatabaseError as error:
            self._columns = {row[1].lower() for row in self._base.execute("PRAGMA table_info(runs)")}
            if name.lower() not in self._columns:  # else another sweep that writes to the same file has just added it
                raise SimError(f"{self._file}: {error}") from error
        self._columns.add(name.lower())

    @staticmethod
    def _quoted(name: str) -> str:
        return name.replace('"', '""')

    def rows(self, keys: set[str]) -> Iterator[dict[str, Any]]:
        """The chosen rows without error, in the order of their keys."""
        cursor = self._base.execute("SELECT * FROM runs WHERE error IS NULL ORDER BY key")
        names = [column[0] for column in cursor.description]
        for row in cursor:
            if row[0] in keys:
                yield dict(zip(names, row))

    def write_csv(self, file: Path, keys: set[str]) -> int:
        """Without the column `key`; columns that no row has are left out. Returns the number of rows."""
        rows = list(self.rows(keys))
        names = [name for name in (rows[0] if rows else {}) if name not in ("key", "error") and any(row[name] is not None for row in rows)]
        try:
            with written_whole(file) as fresh, fresh.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, names, extrasaction="ignore")
                writer.writeheader()
                writer.writerows(rows)
        except OSError as error:
            raise SimError(f"--csv {file}: {error.strerror}; the rows are in {self._file}, and the same command writes them again") from error
        return len(rows)

    def close(self) -> None:
        self._base.close()
