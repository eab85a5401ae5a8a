"""Licences: what files say of themselves, packaging/deb/copyright, and the other distributions' packaging agree."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from conftest import ROOT, relative, text, tracked

COPYRIGHT = (ROOT / "packaging" / "deb" / "copyright").read_text()
# What SPDX and Debian call the same licence. GPL-2.0 is an older name of GPL-2.0-only.
DEBIAN_NAMES = {"GPL-2.0": "GPL-2", "GPL-2.0-only": "GPL-2", "GPL-2.0-or-later": "GPL-2+", "GPL-2.0+": "GPL-2+", "MIT": "Expat"}
# Written so that it does not find itself.
_SPDX = re.compile(r"SPDX-License-" + r"Identifier:\s*([\w.+-]+(?: (?:AND|OR|WITH) [\w.+-]+)*)")


def stanzas(copyright_file: str) -> list[tuple[list[str], str]]:
    """Patterns of files and the licence of each stanza, in order."""
    found = [(re.search(r"^Files: *(.*(?:\n .*)*)", one, re.MULTILINE), re.search(r"^License: *(\S+)", one, re.MULTILINE)) for one in copyright_file.split("\n\n")]
    return [(files[1].split(), licence[1]) for files, licence in found if files and licence]


def licence(name: str, copyright_file: str = COPYRIGHT) -> str:
    """Of the file, by the last stanza that names it, as Debian's format has it."""
    return [said for patterns, said in stanzas(copyright_file) if any(fnmatch(name, pattern) for pattern in patterns)][-1]


def disagreements(name: str, content: str, copyright_file: str = COPYRIGHT) -> list[str]:
    said = licence(name, copyright_file)
    return [f"{name}: {spdx}, and {said} in the copyright file" for spdx in _SPDX.findall(content) if DEBIAN_NAMES.get(spdx) != said]


def test_what_files_say_is_in_the_copyright_file() -> None:
    assert not [line for path in tracked() if (content := text(path)) is not None for line in disagreements(relative(path), content)]


def test_a_planted_disagreement_is_found() -> None:
    for said in ("GPL-2.0", "MIT", "BSD-3-Clause", "GPL-2.0-only WITH Linux-syscall-note"):
        assert disagreements("src/any.cc", "// SPDX-License-" + f"Identifier: {said}\n") == [f"src/any.cc: {said}, and GPL-2+ in the copyright file"]
    assert not disagreements("src/any.cc", "// SPDX-License-" + "Identifier: GPL-2.0-or-later\n")


def test_patches_of_linux_are_under_its_licence() -> None:
    """Also those that quote no such line."""
    patches = [relative(path) for path in tracked() if path.suffix == ".patch" and re.search(r"^--- a/(arch|drivers|kernel|mm|net)/", path.read_text(), re.MULTILINE)]
    assert patches and {licence(name) for name in patches} == {"GPL-2"}


def test_every_stanza_is_of_files_that_are_there() -> None:
    names = [relative(path) for path in tracked()]
    assert not [pattern for patterns, _ in stanzas(COPYRIGHT) for pattern in patterns if not any(fnmatch(name, pattern) for name in names)]


def test_other_distributions_name_the_licences_of_what_they_package() -> None:
    spec = (ROOT / "packaging" / "rpm" / "tandem.spec").read_text()
    main, lab, devel = (re.search(r"^License: *(.*)$", part, re.MULTILINE)[1] for part in re.split(r"^%package ", spec, flags=re.MULTILINE))
    pkgbuild = re.search(r"^license=\(([^)]*)\)", (ROOT / "packaging" / "arch" / "PKGBUILD").read_text(), re.MULTILINE)[1]

    def installed(part: str) -> set[str]:
        """Of the directories that packaging/CMakeLists.txt installs with the part of that name."""
        calls = re.findall(r"install\(DIRECTORY ([^)]*)\)", (ROOT / "packaging" / "CMakeLists.txt").read_text().replace("${CMAKE_SOURCE_DIR}/", ""))
        directories = [word.rstrip("/") for call in calls if re.search(rf"COMPONENT {part}\b(?!-)", call) for word in call.split("DESTINATION")[0].split() if "$" not in word]
        names = [relative(path) for path in tracked()]
        return {licence(name) for name in names for directory in directories if name.startswith(f"{directory}/")}

    def debian(expression: str) -> set[str]:
        return {DEBIAN_NAMES[name] for name in expression.replace(" AND ", " ").split()}

    assert debian(main) == debian(pkgbuild) == installed("tandem") == {"GPL-2+", "Expat"}
    assert debian(lab) == installed("tandem-lab") == {"GPL-2+", "GPL-2"}
    assert debian(devel) == installed("tandem-dev") == {"GPL-2+"}
