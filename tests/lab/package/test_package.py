"""The Debian packages: what is in them, what they depend on, and that an installed tree runs by itself, away from the build."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TANDEM_BUILD_DIR") or ROOT / "build")
PARTS = ("tandem", "tandem-lab", "tandem-dev")


def output(*command: str | Path, **options: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if not (BUILD / "bin" / "tandemd").exists() or not (BUILD / "bin" / "tandem").exists():
        pytest.skip(f"not built: {BUILD}/bin/tandemd and tandem")
    if lacks := [tool for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps") if not shutil.which(tool)]:
        pytest.skip(f"missing: {', '.join(lacks)}")
    directory = tmp_path_factory.mktemp("deb")
    # Not compressed, which takes half of the time and changes nothing of what is in them.
    output("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none", "-B", directory, cwd=BUILD)
    found = {path.name.split("_")[0]: path for path in directory.glob("*.deb")}
    assert sorted(found) == sorted(PARTS)
    return found


@pytest.fixture(scope="module")
def tree(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a system with nothing but the packages."""
    root = tmp_path_factory.mktemp("root")
    for package in packages.values():
        output("dpkg-deb", "-x", package, root)
    return root


def fields(package: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z-]+): (.*)$", output("dpkg-deb", "-f", package), re.MULTILINE))


def members(package: Path) -> list[tarfile.TarInfo]:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacked:
        with tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive:
            return list(archive)


def test_libraries_are_depended_on(packages: dict[str, Path]) -> None:
    needed = fields(packages["tandem"])["Depends"]
    for library in ("libc6", "libstdc++6", "libnetfilter-queue1", "libnftables1", "libpcap0.8", "libev4", "libnl-route-3-200", "libcap-ng0"):
        # Ubuntu 24.04 and Debian 13 have some by the name of the time_t of 64 bits: libev4t64.
        assert re.search(rf"\b{re.escape(library)}(t64)?\b", needed), f"{library} is not in: {needed}"


def test_lab_depends_on_what_it_runs(packages: dict[str, Path]) -> None:
    lab = fields(packages["tandem-lab"])
    for package in ("python3-pyroute2", "nginx-light", "iperf3"):
        assert package in lab["Depends"]
    assert f"tandem (= {fields(packages['tandem'])['Version']})" in lab["Depends"]


@pytest.mark.parametrize("part", PARTS)
def test_fields_a_package_must_have(packages: dict[str, Path], part: str) -> None:
    shown = fields(packages[part])
    assert {"Package", "Version", "Architecture", "Maintainer", "Description", "Section", "Installed-Size"} <= shown.keys()
    assert shown["Architecture"] == output("dpkg", "--print-architecture").strip()
    assert not shown["Description"].lower().startswith(("a ", "an ", "the ", part)) and len(shown["Description"]) <= 100


@pytest.mark.parametrize("part", PARTS)
def test_files_belong_to_root_and_nobody_else_may_write(packages: dict[str, Path], part: str) -> None:
    wrong = [member.name for member in members(packages[part])
             if (member.uid, member.gid) != (0, 0) or member.mode & (stat.S_IWGRP | stat.S_IWOTH) or member.mode & (stat.S_ISUID | stat.S_ISGID)]
    assert not wrong


@pytest.mark.parametrize("file", [
    "usr/sbin/tandemd", "usr/bin/tandem", "usr/bin/tandem-air", "usr/lib/tandem/offload.so", "usr/lib/tandem/services/fetch.so",
    "usr/lib/tandem/lab/lab.py", "usr/lib/tandem/ab/ab.py", "usr/lib/tandem/ab/tandem_ab/report.html.j2", "usr/lib/tandem/common/tandem_common/confidence.py",
    "usr/lib/tandem/dashboard/dashboard.py", "usr/lib/tandem/dashboard/tandem_dashboard/server.py", "usr/lib/tandem/dashboard/page/index.html",
    "usr/lib/tandem/dashboard/vendor/uplot/uPlot.iife.min.js", "usr/lib/tandem/dashboard/vendor/uplot/LICENSE", "usr/lib/tandem/common/tandem_common/control.py",
    "usr/lib/tandem/lab/scenarios/plain.toml", "usr/lib/tandem/bench/bench.py", "usr/lib/systemd/system/tandemd.service",
    "usr/lib/sysusers.d/tandem.conf", "usr/lib/tmpfiles.d/tandem.conf", "etc/tandem/tandem.toml", "usr/share/man/man8/tandemd.8.gz",
    "usr/share/man/man1/tandem.1.gz", "usr/share/man/man5/tandem.toml.5.gz", "usr/share/doc/tandem/changelog.gz", "usr/share/doc/tandem/copyright",
    "usr/share/bash-completion/completions/tandem", "usr/share/zsh/vendor-completions/_tandem", "usr/share/fish/vendor_completions.d/tandem.fish", "usr/include/tandem/module.h",
    "usr/share/doc/tandem/examples/usr.sbin.tandemd", "usr/share/doc/tandem/examples/50-tandem", "usr/share/doc/tandem/examples/50-tandem.rules", "usr/share/tandem/profiles/wifi-g.toml", "usr/share/tandem/profiles/lte-down.trace", "usr/include/tandem/classify.h", "usr/lib/tandem/dev/golden_runner",
    "usr/share/doc/tandem-dev/golden-traces.md", "usr/share/doc/tandem-dev/copyright"])
def test_file_is_there(tree: Path, file: str) -> None:
    assert (tree / file).is_file()


def made_of_the_spec(packages: dict[str, Path], directory: Path, spec: str) -> subprocess.CompletedProcess:
    """rpmbuild with the files of the Debian packages in place of a build. It refuses a spec that does not list a file, or lists one that is not there."""
    directory.mkdir()
    for package in packages.values():
        output("dpkg-deb", "-x", package, directory / "files")
    (directory / "files/usr/share/zsh/vendor-completions").rename(directory / "files/usr/share/zsh/site-functions")
    body = f"%prep\ncp {ROOT}/LICENSE .\n%build\n%install\ncp -a {directory}/files/. %{{buildroot}}\n\n"
    (directory / "tandem.spec").write_text(spec[:spec.index("%prep\n")] + body + spec[spec.index("%pre\n"):])
    # As Fedora's systemd-rpm-macros have them.
    macros = {"_topdir": str(directory), "debug_package": "%{nil}", "_binary_payload": "w1.gzdio", "_unitdir": "/usr/lib/systemd/system", "_sysusersdir": "/usr/lib/sysusers.d", "_tmpfilesdir": "/usr/lib/tmpfiles.d"}
    defined = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    return subprocess.run(["rpmbuild", "-bb", "--nodeps", *defined, str(directory / "tandem.spec")], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=200)


def test_the_rpm_spec_lists_every_file(packages: dict[str, Path], tmp_path: Path) -> None:
    if not shutil.which("rpmbuild"):
        pytest.skip("rpmbuild is not installed: the list of files was not checked")
    spec = (ROOT / "packaging" / "rpm" / "tandem.spec").read_text()
    done = made_of_the_spec(packages, tmp_path / "true", spec)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name.split("-0.")[0] for path in (tmp_path / "true" / "RPMS").rglob("*.rpm")) == ["tandem", "tandem-devel", "tandem-lab"]
    done = made_of_the_spec(packages, tmp_path / "wrong", spec.replace("/usr/lib/tandem/sim\n", ""))
    assert done.returncode != 0 and "/usr/lib/tandem/sim/" in done.stderr + done.stdout


def test_nothing_lies_where_only_the_administrator_puts_things(packages: dict[str, Path]) -> None:
    names = [member.name.removeprefix("./") for package in packages.values() for member in members(package) if not member.isdir()]
    assert not [name for name in names if not name.startswith(("usr/bin/", "usr/sbin/", "usr/lib/", "usr/include/", "usr/share/", "etc/tandem/"))]
    assert not [name for name in names if "__pycache__" in name or name.startswith(("usr/local", "usr/lib/x86_64-linux-gnu"))]


def test_configuration_survives_an_upgrade(packages: dict[str, Path], tmp_path: Path) -> None:
    output("dpkg-deb", "-e", packages["tandem"], tmp_path)
    assert (tmp_path / "conffiles").read_text().split() == ["/etc/tandem/tandem.toml"]
    for script in ("postinst", "prerm", "postrm"):
        assert os.access(tmp_path / script, os.X_OK)
        output("sh", "-n", tmp_path / script)


def test_service_starts_the_installed_daemon_with_two_capabilities(tree: Path) -> None:
    unit = (tree / "usr/lib/systemd/system/tandemd.service").read_text()
    assert "ExecStart=/usr/sbin/tandemd\n" in unit
    assert "@prefix@" not in unit
    assert re.findall(r"^(?:AmbientCapabilities|CapabilityBoundingSet)=(.*)$", unit, re.MULTILINE) == ["CAP_NET_ADMIN CAP_NET_RAW"] * 2
    if not (verify := shutil.which("systemd-analyze")):
        pytest.skip("systemd-analyze is not installed: the unit's syntax was not checked")
    checked = tree / "tandemd.service"
    checked.write_text(unit.replace("/usr/sbin/tandemd", str(tree / "usr/sbin/tandemd")))
    done = subprocess.run([verify, "verify", "--man=no", str(checked)], capture_output=True, text=True)
    assert "tandemd.service" not in done.stderr, done.stderr


def test_programs_carry_no_debug_information(tree: Path) -> None:
    for program in ("usr/sbin/tandemd", "usr/bin/tandem", "usr/lib/tandem/offload.so"):
        assert ".debug_info" not in output("readelf", "-SW", tree / program)


def test_installed_commands_say_what_they_are(tree: Path) -> None:
    version = fields_version()
    said = output(tree / "usr/sbin/tandemd", "--version").strip()
    assert re.fullmatch(rf"tandemd {re.escape(version)}( \([0-9a-f]+\+?\))?", said), said
    assert "lab" in output(tree / "usr/bin/tandem", "--help")


def fields_version() -> str:
    return re.search(r"project\(tandem VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def test_installed_lab_is_found_beside_the_program(tree: Path) -> None:
    """Moved anywhere: the command line finds lib/tandem/lab from where it is itself."""
    assert "plain" in output(tree / "usr/bin/tandem", "lab", "list", cwd="/")
    (tree / "usr/lib/tandem/lab/scenarios/only-here.toml").write_text((tree / "usr/lib/tandem/lab/scenarios/plain.toml").read_text())
    assert "only-here" in output(tree / "usr/bin/tandem", "lab", "list", cwd="/")


def test_links_of_delivered_documents_lead_somewhere(tree: Path) -> None:
    """Pictures, and the decisions that messages of the programs name, too. Results and what lies beside docs are the source's alone."""
    documents = tree / "usr/share/doc/tandem"
    broken = []
    for page in documents.rglob("*.md"):
        for found in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            target = Path(os.path.normpath(page.parent / found))
            of_the_source = not target.is_relative_to(documents) or target.is_relative_to(documents / "results")
            if "://" not in found and not of_the_source and not target.exists():
                broken.append(f"{page.name}: {found}")
    assert not broken and list((documents / "decisions").glob("0032-*"))


def test_delivered_configuration_switches_every_module_on_but_rate(tree: Path) -> None:
    text = (tree / "etc/tandem/tandem.toml").read_text()
    enabled = {name for name, table in tomllib.loads(text)["modules"].items() if table["enabled"]}
    delivered = {path.stem for path in (tree / "usr/lib/tandem").glob("*.so")}
    assert enabled == delivered - {"rate"} and "rate" in delivered
    assert "#[modules.rate]" in text, "what is off by default is shown where it would be switched on"


def test_delivered_configuration_fits_the_delivered_modules(tree: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("root is needed: modules are taken from directories of root only")
    assert "fine" in output(tree / "usr/sbin/tandemd", "--check", "-c", tree / "etc/tandem/tandem.toml")


class Page:
    """docs/writing-a-module.md as the package delivers it: its files (fenced blocks with a name) and its commands."""

    def __init__(self, tree: Path, directory: Path) -> None:
        text = (tree / "usr/share/doc/tandem/writing-a-module.md").read_text()
        self.files = dict(re.findall(r"^```(?:cpp|text) (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        self.commands = re.findall(r"^    ((?:g\+\+|/usr/lib/tandem/dev/golden_runner) .*)$", text, re.MULTILINE)
        for name, content in self.files.items():
            (directory / name).write_text(content)
        self.tree, self.directory = tree, directory

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """With nothing of Tandem but the unpacked packages."""
        words = [word.replace("/usr/lib/tandem", f"{self.tree}/usr/lib/tandem") for word in command.split()]
        environment = {"PATH": os.environ["PATH"], "CPLUS_INCLUDE_PATH": str(self.tree / "usr/include")}
        return subprocess.run(words, cwd=self.directory, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


@pytest.fixture
def page(tree: Path, tmp_path: Path) -> Page:
    if not shutil.which("g++"):
        pytest.skip("missing: g++")
    return Page(tree, tmp_path)


def test_page_about_modules_works_as_written(page: Page) -> None:
    """An edit, an injected segment and a request to a link: built, and played by the runner that is delivered."""
    assert sorted(page.files) == ["cap.cc", "cap.seg", "tail.cc", "tail.seg"]
    assert len(page.commands) == 4
    for command in page.commands:
        done = page.run(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("module,was,planted", [("cap", "win 512 why", "win 513 why"), ("cap", "worth 14000", "worth 0"),
                                                ("tail", "> inject ack by wifi ack 57921", "> inject ack by wifi ack 57920"),
                                                ("tail", "value 0.02", "value 0.03")])
def test_delivered_runner_sees_a_planted_fault(page: Page, module: str, was: str, planted: str) -> None:
    trace = page.files[f"{module}.seg"]
    assert was in trace
    (page.directory / f"{module}.seg").write_text(trace.replace(was, planted))
    build, play = (command for command in page.commands if f"{module}.so" in command)
    assert page.run(build).returncode == 0
    assert page.run(play).returncode == 1


def test_runner_refuses_what_is_no_module(page: Page) -> None:
    (page.directory / "cap.so").write_text("no library")
    done = page.run("/usr/lib/tandem/dev/golden_runner --module ./cap.so cap.seg")
    assert done.returncode == 2 and "not a whole shared library" in done.stderr
