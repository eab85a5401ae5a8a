"""Trials as a Parquet file for notebooks, where pyarrow is: Debian 12 has no library that writes the format."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tandem_common.errors import Failure
from tandem_common.whole import written_whole

from .report import Result, trial_columns

PYARROW = "pyarrow==18.1.0"  # later ones need a NumPy that Debian 12 has not; also in tools/install-deps
SYSTEM = Path("/usr/local/lib/tandem/python")  # by `tools/install-deps parquet`, as root


def places() -> list[Path]:
    """Where pyarrow may lie besides Python's own path, which Debian keeps to its packages."""
    own = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "tandem/python"
    return [place for place in (own, SYSTEM) if place.is_dir() and place.stat().st_uid in (0, os.geteuid())]


def need() -> Any:
    """The library. Raises Failure with what to install."""
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        pass
    before = list(sys.path)
    sys.path += [str(place) for place in places()]  # behind all others: nothing else is to be found there
    importlib.invalidate_caches()
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        sys.path[:] = before
        why = "" if isinstance(error, ModuleNotFoundError) else f" (what is there does not work: {error})"
        raise Failure(f"--parquet needs pyarrow, which Debian 12 has not: python3 -m pip install --no-deps --target {_home()} {PYARROW}{why}") from None


def _home() -> str:
    return "${XDG_DATA_HOME}/tandem/python" if os.environ.get("XDG_DATA_HOME") else "~/.local/share/tandem/python"


def check(file: Path) -> None:
    """Before anything is measured. Raises Failure."""
    need()
    if file.exists() and not file.is_file() or not os.access(file.absolute().parent, os.W_OK):
        raise Failure(f"--parquet {file}: cannot be written; name a file in a directory that is there")


def write(result: Result, file: Path) -> None:
    """A row for each trial, the experiment as JSON under "tandem_ab" in the file's metadata. What is not known is null. Raises Failure."""
    parquet = need()
    arrow = importlib.import_module("pyarrow")
    kinds = {float: arrow.float64(), int: arrow.int64(), str: arrow.string()}
    columns = trial_columns(result)
    fields = [arrow.field(column.name, arrow.timestamp("ms", "UTC") if column.name == "began" else kinds[column.kind]) for column in columns]
    arrays = [arrow.array([round(value * 1000) for value in column.values], arrow.int64()).cast(field.type) if column.name == "began" else
              arrow.array([None if value is None else column.kind(value) for value in column.values], field.type) for column, field in zip(columns, fields)]
    table = arrow.Table.from_arrays(arrays, schema=arrow.schema(fields, {"tandem_ab": json.dumps(result.head)}))
    try:
        with written_whole(file) as fresh:
            parquet.write_table(table, fresh)
    except OSError as error:
        raise Failure(f"{file}: {error.strerror or error}; no Parquet file is written") from error
