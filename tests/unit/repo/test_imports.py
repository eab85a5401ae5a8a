"""Imports run one way, in C++ from the daemon down to the SDK (docs/decisions/0001), in Python without any circle.

Two files that import each other are one file in two places, and two such folders one folder. A header and its source
count as one file. An import inside a function counts, too: it is how a circle hides.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache

import pytest
from conftest import ROOT, relative, tracked

Graph = dict[str, set[str]]

_INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
_COMPONENTS = ("include", "src", "modules", "tools")
_SCRIPTS = ("tools", "tests")


def sources(suffixes: tuple[str, ...] = (".cc", ".h"), folders: tuple[str, ...] = _COMPONENTS) -> dict[str, str]:
    """Every C++ file of the components, or other files, by path from the root."""
    found = (path for path in tracked() if path.suffix in suffixes and path.relative_to(ROOT).parts[0] in folders)
    return {relative(path): path.read_text() for path in found}


def scripts() -> dict[str, str]:
    """Every Python file of the tools and tests."""
    return sources((".py",), _SCRIPTS)


def imports(files: dict[str, str]) -> Graph:
    """Which file includes which; what is no file of the components is left out."""
    graph: Graph = {}
    for name, text in files.items():
        wanted = [(target, f"include/{target}", posixpath.normpath(posixpath.join(posixpath.dirname(name), target))) for target in _INCLUDE.findall(text)]
        graph[name] = {path for paths in wanted for path in paths if path in files}
    return graph


def python_imports(files: dict[str, str]) -> Graph:
    """Which Python file imports which. An absolute name is looked up beside the file, above it, and among the tools."""
    tools = sorted({"/".join(name.split("/")[:2]) for name in files if name.startswith("tools/")})

    def module(place: str, dotted: str) -> set[str]:
        base = posixpath.normpath(posixpath.join(place, *dotted.split(".")))
        return {path for path in (f"{base}.py", f"{base}/__init__.py") if path in files}

    def members(place: str, dotted: str, names: list[str]) -> set[str]:
        """`from dotted import names`: modules of a package, else the module or package that has the name."""
        return {path for name in names for path in module(place, f"{dotted}.{name}".lstrip(".")) or module(place, dotted)}

    def targets(name: str, node: ast.AST) -> set[str]:
        above = [posixpath.dirname(name)]
        while above[-1]:
            above.append(posixpath.dirname(above[-1]))
        if isinstance(node, ast.Import):
            found = [next(filter(None, (module(place, alias.name) for place in above + tools)), set()) for alias in node.names]
            return set().union(*found)
        if not isinstance(node, ast.ImportFrom):
            return set()
        names = [alias.name for alias in node.names]
        places = [above[node.level - 1]] if node.level else above + tools
        return next(filter(None, (members(place, node.module or "", names) for place in places)), set())

    return {name: {target for node in ast.walk(ast.parse(text)) for target in targets(name, node)} - {name} for name, text in files.items()}


def merged(graph: Graph, group: Callable[[str], str]) -> Graph:
    """The same imports between groups of files."""
    result: Graph = defaultdict(set)
    for name, targets in graph.items():
        result[group(name)] |= {group(target) for target in targets} - {group(name)}
    return result


def unit(name: str) -> str:
    """A Python file is a unit by itself; its package's __init__.py is one, too."""
    return name if name.endswith(".py") else name.rpartition(".")[0]


def folder(name: str) -> str:
    return posixpath.dirname(name)


def component(name: str) -> str:
    """The folder with all that is below it: src/kernel, tools/lab."""
    return "/".join(name.split("/")[:2])


def circle(graph: Graph) -> list[str]:
    """One loop of imports, its first at the end again; empty when there is none."""
    done: set[str] = set()

    def follow(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph.get(name, ())):
            if found := follow(target, [*way, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := follow(name, []))), [])


def order() -> list[str]:
    """The components as the root CMakeLists.txt names them: each imports from those before it."""
    listed = re.search(r"foreach\(component\s+(.*?)\)", (ROOT / "CMakeLists.txt").read_text(), re.DOTALL)
    assert listed, "the root CMakeLists.txt has no list of components: foreach(component ..."
    return ["include/tandem", *(name for name in listed[1].split() if "/" in name)]


def against(order: list[str], graph: Graph) -> list[str]:
    """Imports from a component that comes later, and of a module from anything but the SDK."""
    place = {name: at for at, name in enumerate(order)}
    wrong: list[str] = []
    for name, targets in sorted(merged(graph, component).items()):
        assert name in place, f"{name} is not among the components of the root CMakeLists.txt"
        late = [target for target in sorted(targets) if place[target] > place[name]]
        foreign = [target for target in sorted(targets) if name.startswith("modules/") and target != "include/tandem"]
        wrong += [f"{name} -> {target}" for target in dict.fromkeys(late + foreign)]
    return wrong


@cache
def cpp_graph() -> Graph:
    return imports(sources())


@cache
def python_graph() -> Graph:
    """Reading every script takes seconds: once for all tests."""
    return python_imports(scripts())


LEVELS: tuple[Callable[[str], str], ...] = (unit, folder, component)


def test_imports_are_read() -> None:
    """At least as many as a daemon of this size has; a pattern that matches nothing would let everything pass."""
    graph = cpp_graph()
    assert sum(map(len, graph.values())) > 500
    assert "src/kernel/rules/rules.h" in graph["src/kernel/keeper/keeper_state.h"]
    assert "include/tandem/classify.h" in graph["src/kernel/packet/bpf.cc"]
    graph = python_graph()
    assert sum(map(len, graph.values())) > 250
    assert "tools/bench/tandem_bench/model.py" in graph["tools/bench/tandem_bench/benches/freeze.py"]  # from ..model
    assert "tools/common/tandem_common/duration.py" in graph["tools/sim/tandem_simulator/sweep.py"]  # among the tools
    assert "tests/lab/conftest.py" in graph["tests/lab/test_daemon.py"]


@pytest.mark.parametrize("level", LEVELS)
def test_no_circle(level: Callable[[str], str]) -> None:
    found = circle(merged(cpp_graph(), level)) or circle(merged(python_graph(), level))
    assert not found, " -> ".join(found)


def test_components_import_from_earlier_ones_only() -> None:
    wrong = against(order(), cpp_graph())
    assert not wrong


def planted(extra: dict[str, list[str]]) -> dict[str, str]:
    """Components without fault, and files with imports of their own."""
    files: dict[str, str] = {
        "include/tandem/a.h": "",
        "src/low/x/one.h": "#include <tandem/a.h>\n",
        "src/low/x/one.cc": '#include "src/low/x/one.h"\n',
        "src/low/y/two.h": '#include "src/low/x/one.h"\n',
        "src/high/three.h": '#include "src/low/y/two.h"\n',
    }
    for name, targets in extra.items():
        files[name] = files.get(name, "") + "".join(f'#include "{target}"\n' for target in targets)
    return files


@pytest.mark.parametrize(
    ("level", "at", "target"),
    [
        (unit, "src/low/x/one.cc", "src/low/y/two.h"),  # a source that includes its header's user
        (folder, "src/low/x/four.cc", "src/low/y/two.h"),
        (component, "src/low/five.cc", "src/high/three.h"),
    ],
)
def test_a_planted_circle_is_found(level: Callable[[str], str], at: str, target: str) -> None:
    assert not circle(merged(imports(planted({})), level))
    found = circle(merged(imports(planted({at: [target]})), level))
    assert level(at) in found and level(target) in found


PYTHON = {
    "tools/low/x/__init__.py": "from .one import name\n",
    "tools/low/x/one.py": "import json\n",
    "tools/low/y/two.py": "def late() -> None:\n    from x.one import name\n",
    "tools/high/three.py": "import y.two as two\nfrom . import four\n",
    "tools/high/four.py": "",
}


@pytest.mark.parametrize(
    ("level", "at", "text", "partner"),
    [
        (unit, "tools/high/four.py", "from .three import name\n", "tools/high/three.py"),
        (unit, "tools/low/x/one.py", "from . import name\n", "tools/low/x/__init__.py"),
        (folder, "tools/low/x/one.py", "import y.two\n", "tools/low/y/two.py"),
        (component, "tools/low/x/one.py", "def late():\n    import three\n", "tools/high/three.py"),
    ],
)
def test_a_planted_circle_of_python_is_found(level: Callable[[str], str], at: str, text: str, partner: str) -> None:
    assert not circle(merged(python_imports(PYTHON), level))
    found = circle(merged(python_imports({**PYTHON, at: text}), level))
    assert level(at) in found and level(partner) in found


@pytest.mark.parametrize(
    ("at", "target"), [("src/low/five.cc", "src/high/three.h"), ("include/tandem/a.h", "src/low/x/one.h"), ("modules/m/m.cc", "src/low/x/one.h")]
)
def test_a_planted_import_against_the_order_is_found(at: str, target: str) -> None:
    components = ["include/tandem", "src/low", "src/high", "modules/m"]
    assert not against(components, imports(planted({})))
    assert against(components, imports(planted({at: [target]}))) == [f"{component(at)} -> {component(target)}"]
