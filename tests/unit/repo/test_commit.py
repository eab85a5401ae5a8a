"""Which commit a build says it is of: cmake/commit.cmake, run by every build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

CMAKE = shutil.which("cmake")
pytestmark = pytest.mark.skipif(not CMAKE or not shutil.which("git"), reason="cmake or git is not installed: not looked at")


def git(clone: Path, *words: str) -> str:
    own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    mark = ["-c", f"safe.directory={clone}", "-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    return subprocess.run(["git", *mark, "-C", str(clone), *words], capture_output=True, text=True, check=True, timeout=60, env=own).stdout.strip()


def commit(source: Path, header: Path, *words: str, **environment: str) -> str:
    """What the header says."""
    subprocess.run([str(CMAKE), *words, f"-DSOURCE={source}", f"-DOUT={header}", "-P", str(ROOT / "cmake/commit.cmake")], check=True, timeout=60,
                   capture_output=True, env={**os.environ, **environment})
    return re.fullmatch(r'#define TANDEM_COMMIT "(.*)"\n', header.read_text())[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q")
    (source / "file").write_text("one\n")
    git(source, "add", "file")
    git(source, "commit", "-q", "-m", "one")
    git(source, "tag", "-a", "-m", "", "v9")
    return source


def test_a_clone_says_its_commit_and_whether_files_differ_from_it(clone: Path, tmp_path: Path) -> None:
    short = git(clone, "rev-parse", "--short=10", "HEAD")
    assert commit(clone, tmp_path / "commit.h") == short
    assert commit(clone, tmp_path / "commit.h", GIT_DIR="/nonexistent") == short, "a build in a hook of another repository"
    (clone / "file").write_text("two\n")
    assert commit(clone, tmp_path / "commit.h") == short + "+"


def test_who_builds_the_same_commit_gets_the_same_words(clone: Path, tmp_path: Path) -> None:
    """How short git makes a commit depends on the clone: on its objects, and on what its owner has set."""
    first = commit(clone, tmp_path / "commit.h")
    git(clone, "config", "core.abbrev", "20")
    assert commit(clone, tmp_path / "commit.h") == first


def test_nothing_is_compiled_anew_while_the_commit_stays(clone: Path, tmp_path: Path) -> None:
    header = tmp_path / "commit.h"
    first = commit(clone, header)
    os.utime(header, (1, 1))
    assert commit(clone, header) == first
    assert header.stat().st_mtime == 1, "written again: every build would link every program"
    git(clone, "commit", "-q", "--allow-empty", "-m", "two")
    assert commit(clone, header) == git(clone, "rev-parse", "--short=10", "HEAD") != first
    assert header.stat().st_mtime != 1


def test_a_tarball_says_none_even_within_another_clone(clone: Path, tmp_path: Path) -> None:
    unpacked = clone / "tandem-0.1.0"
    unpacked.mkdir()
    assert commit(unpacked, tmp_path / "commit.h") == ""


def test_no_git_and_no_commit_yet_are_no_faults(clone: Path, tmp_path: Path) -> None:
    assert commit(clone, tmp_path / "commit.h", "-Dgit=git-is-not-here") == ""
    shutil.rmtree(clone / ".git")
    git(clone, "init", "-q")
    assert commit(clone, tmp_path / "commit.h") == ""
