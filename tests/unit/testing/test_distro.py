"""Roots of other releases: what they are made of, when they are made anew, which commit is in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "testing"))

import distro  # noqa: E402


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that were run instead of making a root; each makes a folder, as mmdebstrap would."""
    commands: list[list[str]] = []

    def run(command, **_):
        commands.append(command)
        Path(command[-1]).mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(distro, "wanted", lambda release: ["cmake", "git"])
    monkeypatch.setattr(distro.shutil, "which", lambda program: program)
    monkeypatch.setattr(distro.subprocess, "run", run)
    monkeypatch.setitem(distro.RELEASES, "trixie", distro.Release("Debian 13", "main", "/dev/null", "run: apt-get install some-keyring"))
    return commands


def test_what_a_killed_run_left_goes_and_nobody_else_works_there(made: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "root-killed" / "root").mkdir(parents=True)
    with distro.alone("trixie", tmp_path):
        distro.make("trixie", None, tmp_path)
        assert not (tmp_path / "root-killed").exists() and (tmp_path / "root").is_dir()
        with pytest.raises(distro.NoDistro, match="another tools/distro trixie is at work"), distro.alone("trixie", tmp_path):
            pass
    with distro.alone("trixie", tmp_path):
        pass


def test_a_root_is_made_once_and_anew_for_other_packages(made: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = distro.make("trixie", None, tmp_path)
    assert len(made) == 1 and "--include=cmake,git" in made[0] and made[0][-2] == "trixie" and tree.is_dir()
    (tree / "built").touch()
    assert distro.make("trixie", None, tmp_path) == tree and len(made) == 1 and (tree / "built").exists()
    monkeypatch.setattr(distro, "wanted", lambda release: ["cmake", "git", "ninja-build"])
    assert distro.make("trixie", None, tmp_path) == tree and len(made) == 2 and not (tree / "built").exists()


def test_half_a_root_is_none(made: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command, **_):
        Path(command[-1]).mkdir()
        return subprocess.CompletedProcess(command, 1, "", "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(distro.subprocess, "run", fails)
        with pytest.raises(distro.NoDistro, match="no space left"):
            distro.make("trixie", None, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "root").mkdir()  # and no list of packages
    distro.make("trixie", None, tmp_path)
    assert len(made) == 1


def test_a_missing_keyring_is_named_with_its_package(made: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(distro.RELEASES, "trixie", distro.Release("Debian 13", "main", "nobodys.gpg", "run: apt-get install some-keyring"))
    with pytest.raises(distro.NoDistro, match="nobodys.gpg is missing.*apt-get install some-keyring"):
        distro.make("trixie", None, tmp_path)
    assert made == []


def test_the_mirror_comes_last_as_mmdebstrap_wants_it() -> None:
    assert distro.bootstrap("noble", "file:/mirror", ["git"], Path("/root-of-it"))[-3:] == ["noble", "/root-of-it", "file:/mirror"]
    assert "--components=main,universe" in distro.bootstrap("noble", None, ["git"], Path("/root-of-it"))


def test_the_commit_is_checked_out_and_what_was_built_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    here, tree = tmp_path / "here", tmp_path / "tree"
    tree.mkdir()

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(here), "-c", "user.name=T", "-c", "user.email=t@example.org", *words], check=True, capture_output=True, text=True).stdout.strip()

    here.mkdir()
    git("init", "--quiet")
    (here / "file").write_text("one")
    (here / ".gitignore").write_text("build/\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    monkeypatch.setattr(distro, "ROOT", here)
    assert distro.check_out(tree) == git("rev-parse", "HEAD")
    (tree / distro.SOURCE / "build").mkdir()
    (here / "file").write_text("two")
    distro.check_out(tree)
    assert (tree / distro.SOURCE / "file").read_text() == "one" and "not committed" in capsys.readouterr().err
    git("commit", "--quiet", "-a", "-m", "two")
    assert distro.check_out(tree) == git("rev-parse", "HEAD")
    assert (tree / distro.SOURCE / "file").read_text() == "two" and (tree / distro.SOURCE / "build").is_dir()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [[], ["sid"], ["trixie", "fast", "--", "true"], ["trixie", "--mirrors", "x"]])
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        distro.main(words)
    assert ended.value.code == 2
