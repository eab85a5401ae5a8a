"""What belongs together: modules and their pages, tests and their registration, links and what they point to, packages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, relative, tracked

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def modules() -> list[str]:
    """Folders that build a module to be loaded; one that only has functions yet has nothing to tell a user."""
    lists = [path for path in tracked() if path.relative_to(ROOT).parts[0] == "modules" and path.name == "CMakeLists.txt"]
    return sorted({path.relative_to(ROOT).parts[1] for path in lists if "tandem_module(" in path.read_text()})


def test_there_is_a_module() -> None:
    assert "offload" in modules()


@pytest.mark.parametrize("module", modules())
def test_module_has_its_page(module: str) -> None:
    page = ROOT / "docs" / "modules" / f"{module}.md"
    assert page.exists(), f"{relative(page)} is missing"
    assert page.read_text().startswith("#")


@pytest.mark.parametrize("module", modules())
def test_module_says_what_it_does_to_each_kind_of_sender(module: str) -> None:
    """As include/tandem/sender.h names them."""
    _, _, about = (ROOT / "docs" / "modules" / f"{module}.md").read_text().partition("**Senders")
    rows = [line.split("|")[1] for line in about.partition("## Knobs")[0].splitlines() if line.startswith("|")]
    assert [kind for kind in ("loss-based", "rate-based", "unresponsive", "unknown") if not any(kind in row for row in rows)] == []


@pytest.mark.parametrize("command", ["tools/demo", "tools/test"])
def test_readme_names_the_command_and_it_is_there(command: str) -> None:
    assert command in (ROOT / "README.md").read_text()
    assert (ROOT / command).stat().st_mode & 0o111


def test_continuous_integration_runs_the_same_command() -> None:
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert len(commands) == 1
    assert re.fullmatch(r'exec ".*/tools/test" "\$@"', commands[0])


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What a link may name behind the # : the headings, as GitHub makes anchors of them."""
    heads = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head) for head in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken_links(page: Path) -> list[str]:
    """Links of the page to files that are not there, or to headings that are not in them."""
    broken = []
    for found in _LINK.finditer(prose(page)):
        target, _, anchor = (found[1] or found[2]).partition("#")
        if "://" in target:
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(found[0])
    return broken


def test_links_of_documents_lead_somewhere() -> None:
    assert not {relative(page): broken for page in tracked() if page.suffix == ".md" and (broken := broken_links(page))}


def test_a_planted_link_into_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading: `code`, [linked](x.md)\n")
    page = tmp_path / "page.md"
    page.write_text("# Own\n[a](there.md) [b](#own) [c](there.md#a-heading-code-linked)\n[d](gone.md) [e](#other) [f](there.md#other)\n```\n[g](gone.md)\n```\n")
    assert broken_links(page) == ["[d](gone.md)", "[e](#other)", "[f](there.md#other)"]


def test_commits_of_results_are_there_or_told_to_be_lost() -> None:
    def git(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), *words], capture_output=True, text=True)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no history to look into")
    results = ROOT / "docs" / "results"
    told = (results / "README.md").read_text()
    named = {(page.name, found) for page in sorted(results.glob("*.md")) for found in re.findall(r"^- commit: ([0-9a-f]{7})", page.read_text(), re.MULTILINE)}
    assert len(named) > 20
    assert [one for one in sorted(named) if one[1] not in told and git("cat-file", "-e", one[1] + "^{commit}").returncode != 0] == []


def test_every_test_is_registered() -> None:
    """A test file that no CMakeLists.txt names is never run."""
    forgotten = []
    for path in tracked():
        if path.relative_to(ROOT).parts[0] != "tests" or not path.name.endswith("_test.cc"):
            continue
        registered = [parent / "CMakeLists.txt" for parent in (path.parent, path.parent.parent) if (parent / "CMakeLists.txt").exists()]
        if not any(path.name in file.read_text() or path.stem in file.read_text() for file in registered):
            forgotten.append(relative(path))
    assert not forgotten


def packages(*groups: str) -> list[str]:
    return subprocess.run([str(ROOT / "tools" / "install-deps"), "--print", *groups], capture_output=True, text=True, check=True).stdout.split()


def test_package_list_is_well_formed() -> None:
    listed = packages("build", "run", "test", "vm", "foreign", "fuzz", "dev")
    assert len(listed) == len(set(listed))
    assert not [name for name in listed if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name)]


def test_packages_of_each_release_come_from_the_one_list() -> None:
    bookworm, trixie, noble = (packages("--release", release, "build", "run", "test") for release in ("bookworm", "trixie", "noble"))
    assert set(bookworm) - set(trixie) == {"clang-format-14"} and not set(trixie) - set(bookworm)
    assert set(noble) == set(bookworm)
    done = subprocess.run([str(ROOT / "tools" / "install-deps"), "--print", "--release", "nowhere"], capture_output=True, text=True)
    assert (done.returncode, "bookworm trixie noble" in done.stderr) == (2, True)


def test_every_mark_in_the_package_list_is_of_a_known_release() -> None:
    lines = [line.split("#")[0].split() for line in (ROOT / "tools" / "packages").read_text().splitlines()]
    marks = [words[1] for words in lines if len(words) > 1]
    assert marks and all(re.fullmatch(r"@(bookworm|trixie|noble)(,(bookworm|trixie|noble))*", mark) for mark in marks), marks


def test_packages_are_those_of_this_list() -> None:
    """What CMake looks for comes from a package of the list."""
    wanted = {"Boost": "libboost-dev", "nlohmann_json": "nlohmann-json3-dev", "CLI11": "libcli11-dev", "GTest": "libgtest-dev",
              "PkgConfig": "pkg-config", "Threads": "build-essential", "benchmark": "libbenchmark-dev", "tomlplusplus": "libtomlplusplus-dev",
              "libbpf": "libbpf-dev", "libcap-ng": "libcap-ng-dev", "libpcap": "libpcap-dev", "libmnl": "libmnl-dev",
              "libnetfilter_queue": "libnetfilter-queue-dev",
              "libnftables": "libnftables-dev", "libnl-3.0": "libnl-3-dev", "libnl-genl-3.0": "libnl-genl-3-dev",
              "libnl-route-3.0": "libnl-route-3-dev", "sdbus-c++": "libsdbus-c++-dev", "libsystemd": "libsystemd-dev", "libcap": "libcap-dev", "liburing": "liburing-dev",
              "ev": "libev-dev", "Python3": "python3", "nettle": "nettle-dev", "lwip": "liblwip-dev"}
    listed = packages("build", "run", "test", "foreign")
    lacking = []
    for path in (path for path in tracked() if path.name == "CMakeLists.txt" or path.suffix == ".cmake"):
        content = path.read_text()
        found = re.findall(r"find_package\(([\w+-]+)", content) + re.findall(r"find_library\(\w+ (?:NAMES )?(\w+)", content)
        for arguments in re.findall(r"pkg_check_modules\((?:\w+)\s+([^)]*)\)", content):
            found += [word for word in re.split(r"\s+|[<>=]+[\d.]+", arguments) if word and word not in ("REQUIRED", "IMPORTED_TARGET", "QUIET")]
        lacking += [f"{relative(path)}: {name}" for name in found if wanted.get(name) not in listed]
    assert not lacking
