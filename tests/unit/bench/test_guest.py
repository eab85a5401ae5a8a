"""What a guest in virtual time is told to do, with a shell in place of its kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tandem_lab import kernels, virtual_machine


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    room = tmp_path / "room"
    (room / "shared").mkdir(parents=True)
    kernel = kernels.Kernel("checksum", "recipe", "6.1", "6.1.0", tmp_path)
    monkeypatch.setattr(virtual_machine, "requirements", lambda: kernel)
    monkeypatch.setattr(virtual_machine, "_ROOM", str(room))
    monkeypatch.setattr(virtual_machine, "_command", lambda *_: ["sh", "-c", "echo ready; read go"])
    monkeypatch.setattr(virtual_machine.virtual_clock, "Clock", lambda *_: None)
    return room


@pytest.mark.parametrize("directory", [None, Path("/usr")])
def test_a_command_runs_where_it_was_asked_for_also_with_places_for_its_results(room: Path, tmp_path: Path, directory: Path | None) -> None:
    with virtual_machine.Machine(["true"], seed=1, cpu=0, directory=directory, directories=[tmp_path / "results"]):
        job = json.loads((room / "shared" / "job.json").read_text())
    assert job["directory"] == str(directory or Path.cwd()) and job["directories"] == [str(tmp_path / "results")]
