"""Every file by itself: it reads, it has its form, and it names nothing of the machine it was written on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import ROOT, first_line, relative, text, tracked

# Written so that they do not find themselves.
_MACHINE_PATHS = re.compile(r"(?<![\w.$}])/(?:wor[k]/(?:main|shared)|tmp/t[b]-|home/[a-z]|roo[t]/[.\w])")
_HOSTS = {"www.debian.org", "keepachangelog.com", "semver.org", "www.rfc-editor.org", "datatracker.ietf.org", "www.w3.org", "json.schemastore.org",
          "docs.kernel.org", "www.kernel.org", "www.ietf.org", "www.radiotap.org", "doi.org", "prometheus.io", "dl.acm.org"}
_LOCAL_HOST = re.compile(r"^(localhost|[\d.]+|\[[\da-fA-F:]+\]|.*[{}$<>%].*|[A-Z_]+|tandem|[a-z]+\.test|example\.(com|org))?$")
_URL = re.compile(r"https?://[^\s\"'`)>\]]+")


def shell_scripts() -> list[Path]:
    return [path for path in tracked() if re.match(r"#!\s*/(usr/)?bin/(env )?(ba|da)?sh\b", first_line(path))]


def python_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" or "python" in first_line(path) and first_line(path).startswith("#!")]


def sources() -> list[Path]:
    return [path for path in tracked() if path.suffix in (".cc", ".h")]


def test_git_lists_the_files() -> None:
    assert len(tracked()) > 50
    assert ROOT / "CMakeLists.txt" in tracked()


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [f"{relative(path)}:{number}: {line.strip()}" for path in tracked() if (content := text(path)) is not None
             for number, line in enumerate(content.splitlines(), 1) if _MACHINE_PATHS.search(line)]
    assert not found


def test_the_rule_for_machine_paths_finds_them() -> None:
    assert _MACHINE_PATHS.search("cd /wor" + "k/main")
    assert _MACHINE_PATHS.search('"/home/' + 'someone/x"')
    assert not _MACHINE_PATHS.search("${dir}/home/a")


def test_addresses_on_the_net_are_of_documents_only() -> None:
    """No package registry, mirror or private host: where packages come from is the user's own setting."""
    found = []
    for path in tracked():
        if (content := text(path)) is None or {"corpus", "samples", "vendor"} & set(path.parts):
            continue
        for number, line in enumerate(content.splitlines(), 1):
            for url in _URL.findall(line):
                host = urlsplit(re.sub(r"[{}]", "", url)).netloc.rsplit("@")[-1] if "{" not in url else ""
                host = re.sub(r":\d*$", "", host)
                if host not in _HOSTS and not _LOCAL_HOST.match(host):
                    found.append(f"{relative(path)}:{number}: {url}")
    assert not found


@pytest.mark.parametrize("script", shell_scripts(), ids=relative)
def test_shell_script_parses(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_python_compiles() -> None:
    faults = []
    for path in python_files():
        try:
            compile(path.read_bytes(), str(path), "exec")
        except SyntaxError as error:
            faults.append(f"{relative(path)}:{error.lineno}: {error.msg}")
    assert not faults


def test_python_programs_use_the_system_python() -> None:
    """Packages like pyroute2 are Debian's; another Python further up in PATH does not have them."""
    assert not [relative(path) for path in python_files() if (line := first_line(path)).startswith("#!") and line != "#!/usr/bin/python3"]


def test_programs_and_only_programs_are_executable() -> None:
    wrong = []
    for path in tracked():
        if "deb" in path.parts:
            continue
        has_interpreter = first_line(path).startswith("#!") and path.suffix not in (".cc", ".h")
        if has_interpreter != os.access(path, os.X_OK):
            wrong.append(relative(path))
    assert not wrong


def test_headers_are_guarded() -> None:
    assert not [relative(path) for path in sources() if path.suffix == ".h" and "#pragma once" not in path.read_text()]


def test_clang_format() -> None:
    if not (tool := shutil.which("clang-format-14")):
        pytest.skip("clang-format-14 is not installed; run: tools/install-deps test")

    def faults(files: list[Path]) -> str:
        return subprocess.run([tool, "--dry-run", "-Werror", "--ferror-limit=1", *map(str, files)], capture_output=True, text=True).stderr

    # Each start of the program costs as much as ten files.
    files, jobs = list(sources()), os.cpu_count() or 1
    with ThreadPoolExecutor(jobs) as pool:
        told = "".join(pool.map(faults, [files[number::jobs] for number in range(jobs)]))
    found = [line for line in told.splitlines() if "clang-format-violations" in line]
    assert not told, "run clang-format-14 -i on these:\n" + ("\n".join(found) or told)
