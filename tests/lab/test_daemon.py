"""The daemon between real TCPs: what a user relies on when it is switched, stopped, killed, stuck or short of something."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT, mangle_of_another
from tandem_lab import system, topology

# A few seconds of download at the emulated 802.11g rate; the checksum covers every byte.
FILE = "random"
# One that is over sooner, for what needs no more than a connection on which data flows.
SHORT, SHORT_CONTENT = "short", random.Random(4).randbytes(4_000_000)
SHORT_SUM = hashlib.sha256(SHORT_CONTENT).hexdigest()


@pytest.fixture(scope="module")
def daemon_needed(without_air: None) -> None:
    """The test needs the daemon and the command line."""
    for name in ("tandemd", "tandem"):
        try:
            system.tandem_binary(name)
        except Exception as error:  # noqa: BLE001 - whatever the reason, it is the reason to skip
            pytest.skip(f"{name}: {error}")


@pytest.fixture(scope="module")
def short_file(air_lab) -> None:
    air_lab.add_file(SHORT, SHORT_CONTENT)


@pytest.fixture
def lab(air_lab, short_file, daemon_needed):
    yield air_lab
    air_lab.set("cell.source_filter", False)


def left(lab) -> str:
    """Everything of ours that netfilter holds in the client's namespace."""
    found = lab.client.run(["nft", "list", "ruleset"], check=False).stdout
    for tool in ("iptables-save", "ip6tables-save"):
        found += lab.client.run([tool], check=False).stdout
    return "\n".join(line for line in found.splitlines() if re.search(r"table inet tandem\b|TANDEM|NFQUEUE|queue (num|to|flags)", line))


def rules(lab) -> str:
    """Our rules there. Empty chains stay while the daemon runs: the kernel drops what waits in any program's queue when a hook goes."""
    return "\n".join(line for line in left(lab).splitlines() if re.search(r"^-A|jump|goto|NFQUEUE|queue (num|to|flags)", line))


def routes(lab) -> str:
    """Our policy rules, both IP versions."""
    return "".join(lab.client.run(["ip", *family, "rule", "show"]).stdout for family in ([], ["-6"])).count("8484") * "x"


def tandem(lab, daemon, *words: str, check: bool = True) -> subprocess.CompletedProcess:
    """The command line, as a user of this client would type it."""
    return lab.client.run([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), *words], check=check)


def whole(lab, result, file: str = FILE) -> None:
    """The file arrived, every byte of it."""
    assert result.error is None
    assert result.sha256 == {FILE: lab.random_file["sha256"], SHORT: SHORT_SUM}[file]


def by_cellular(daemon) -> bool:
    """Some flow's ACKs leave by cellular now."""
    return any(flow["modules"].get("offload", {}).get("phase") == "cellular" for flow in daemon.api("/v1/flows"))


def queued(daemon) -> int:
    return daemon.api("/v1/status")["datapath"]["queued"]


def test_the_doctor_knows_what_runs(lab):
    """Nothing that is the daemon's own is in its way, and what it has loaded it can use."""
    with lab.daemon(["offload", "freeze", "mirror"]) as daemon:
        assert system.wait_until(lambda: rules(lab) != "", 3)
        checks = {check["name"]: check for check in daemon.api("/v1/doctor")["checks"]}
        assert not [check for check in checks.values() if check["health"] == "fail"]
        assert checks["other rules on queue 84"]["found"] == "none"
        how = daemon.api("/v1/status")["pacing"]["how"]
        assert not how or checks["pacing of uploads"]["found"].startswith(f"by {how}")


def test_the_doctor_knows_who_else_marks_tcp(lab):
    with lab.daemon(["freeze"]) as daemon:
        def health() -> str:
            return next(check["health"] for check in daemon.api("/v1/doctor")["checks"] if check["name"].startswith("mark bits"))

        assert health() == "ok"
        for protocol, expected in ((["-p", "udp"], "ok"), (["!", "-p", "udp"], "warn")):
            rule = ["OUTPUT", "-d", "192.0.2.77/32", *protocol, "-j", "MARK", "--set-xmark", "0xffffffff/0xffffffff"]
            lab.client.run(["iptables-nft", "-t", "mangle", "-A", *rule])
            assert health() == expected, protocol
            lab.client.run(["iptables-nft", "-t", "mangle", "-D", *rule])


def test_of_a_cellular_link_that_is_not_wanted_nothing_is_said(lab):
    with lab.daemon(["freeze"], {"links": {"cell": "none"}, "cell": {"metered": "budget", "roaming": "never"}}) as daemon:
        assert system.wait_until(lambda: rules(lab) != "", 3)
        time.sleep(3.5)  # who asks what the link costs waits for three seconds
        assert "cellular link" not in daemon.log.read_text()


def test_all_modules_off_means_no_rule(lab):
    with lab.daemon() as daemon:
        assert system.wait_until(lambda: daemon.api("/v1/status")["keeper"]["state"] == "idle", 3)
        assert rules(lab) == ""
        whole(lab, lab.download(SHORT, sha256=True), SHORT)
        assert queued(daemon) == 0


@pytest.mark.parametrize("streams", [1, 16])
def test_faster_than_wifi_leaves_the_queue_with_every_module_on(limited_by_the_cpu, veth_lab, daemon_needed, streams):
    with veth_lab.daemon() as daemon:
        for module in daemon.api("/v1/modules"):
            tandem(veth_lab, daemon, "module", module["name"], "on")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            report = pool.submit(veth_lab.iperf3, "-R", "-P", str(streams), "-t", "4", timeout=30)
            assert system.wait_until(lambda: queued(daemon) > 0, 3)

            def stands_still() -> bool:
                before = queued(daemon)
                time.sleep(0.5)
                return queued(daemon) == before and not report.done()

            assert system.wait_until(stands_still, 4)
        assert report.result()["end"]["sum_received"]["bits_per_second"] > 2.5e9, "this machine is too slow for this test"


def test_at_rest_nothing_wakes_it_and_the_next_download_does(lab):
    """Every module on: five seconds after the last packet no timer runs any more."""
    sys.path[:0] = [str(ROOT / "tools" / "bench")]
    from tandem_bench.wakeups import Counting

    with lab.daemon(["offload", "freeze", "mirror", "ecn", "rate"]) as daemon:
        whole(lab, lab.download(FILE, sha256=True))
        time.sleep(8)
        with Counting([daemon.pid, daemon.api("/v1/status")["keeper"]["pid"]]) as counting:
            woken = counting.look(20)
        # The goal is one in 10 s (`tandem bench idle`); one more is the margin.
        assert woken.count <= 3, woken.said()
        going = lab.start_download(FILE, sha256=True)
        assert system.wait_until(lambda: by_cellular(daemon), 5)
        # Awake, it is watched again: a loop that stands still is noticed.
        os.kill(daemon.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(daemon.pid, signal.SIGCONT)
        whole(lab, going.wait())
        assert daemon.api("/v1/status")["keeper"]["suspensions"] >= 1


def test_switched_on_and_off_while_traffic_runs(lab):
    with lab.daemon() as daemon:
        going = lab.start_download(FILE, sha256=True)
        going.wait_bytes(1_000_000)
        assert queued(daemon) == 0
        tandem(lab, daemon, "module", "offload", "on")
        # This connection is older than the rules: it passes untouched, and a new one does not.
        second = lab.start_download(SHORT, sha256=True)
        assert system.wait_until(lambda: queued(daemon) > 0, 5)
        tandem(lab, daemon, "module", "offload", "off")
        assert system.wait_until(lambda: not re.search("NFQUEUE|queue", rules(lab)), 3)
        whole(lab, going.wait())
        whole(lab, second.wait(), SHORT)


def test_what_is_excluded_is_untouched_and_the_rest_is_not(lab, tmp_path):
    address = lab.server().ipv4
    config = {"daemon": {"saved_directory": str(tmp_path / "saved")}, "modules": {"offload": {"added_delay_free": "250ms"}}}

    def excluded(daemon) -> list[str]:
        return [flow.get("excluded", "") for flow in daemon.api("/v1/flows") if not flow["closed"]]

    def goes_by_cellular(daemon, going) -> bool:
        return system.wait_until(lambda: by_cellular(daemon) or not going.running(), 8) and going.running()

    with lab.daemon(["offload"], config) as daemon:
        assert tandem(lab, daemon, "exclude", "add", "to", f"{address}/32").stdout == f"to {address} is excluded, saved\n"
        going = lab.start_download(FILE, sha256=True)
        going.wait_bytes(2_000_000)
        assert excluded(daemon) == [f"to {address}"] and f"excluded: to {address}" in tandem(lab, daemon, "flows").stdout
        result = going.wait()
        whole(lab, result)
        assert queued(daemon) == 0 and result.interfaces["cell0"]["acks_out"] == 0
        # By the other IP version it is another destination. It is excluded while its ACKs leave by cellular.
        going = lab.start_download(FILE, sha256=True, v6=True)
        assert goes_by_cellular(daemon, going)
        tandem(lab, daemon, "exclude", "add", "user", "root")
        assert system.wait_until(lambda: excluded(daemon) == ["user root"], 3)
        spent = daemon.api("/v1/status")["datapath"]["cell_bytes"]
        whole(lab, going.wait())
        assert spent > 0 and daemon.api("/v1/status")["datapath"]["cell_bytes"] == spent
        # Bound to an interface: of such a socket the kernel tells only who names that one.
        bound = lab.client.popen(["curl", "-s", "-o", "/dev/null", "-m", "20", "--interface", "if!wlan0", f"http://[{lab.server().ipv6}]/100M"])
        try:
            assert system.wait_until(lambda: excluded(daemon) == ["user root"], 5), daemon.api("/v1/flows")
        finally:
            bound.kill()
            bound.wait()
    with lab.daemon(["offload"], config) as daemon:
        assert {one["what"] for one in daemon.api("/v1/exclusions")["exclusions"]} == {address, "root"}, "over a restart"
        for kind, what in (("to", address), ("user", "root")):
            tandem(lab, daemon, "exclude", "remove", kind, what)
        going = lab.start_download(FILE, sha256=True)
        assert goes_by_cellular(daemon, going)
        # A reload takes over what the file says.
        daemon.config_file.write_text(daemon.config_file.read_text() + f'\n[exclude]\nto = ["{address}"]\n')
        daemon.signal(signal.SIGHUP)
        assert system.wait_until(lambda: excluded(daemon) == [f"to {address}"], 3)
        whole(lab, going.wait())
        refused = tandem(lab, daemon, "exclude", "remove", "to", address, check=False)
        assert refused.returncode == 2 and f"is excluded by {daemon.config_file}:" in refused.stderr


def test_nothing_stays_behind_after_a_stop(lab):
    before = left(lab), routes(lab)
    with lab.daemon(["offload"]) as daemon:
        going = lab.start_download(SHORT, sha256=True)
        assert system.wait_until(lambda: rules(lab) and routes(lab) != before[1], 5)
        going.wait_bytes(1_000_000)
        assert daemon.stop() == 0
        assert (left(lab), routes(lab)) == before
        whole(lab, going.wait(), SHORT)


@pytest.mark.parametrize("moved", [False, True], ids=["acks-by-wifi", "acks-by-cellular"])
def test_killed_in_mid_transfer(lab, moved):
    lab.set("cell.source_filter", not moved)
    before = left(lab), routes(lab)
    with lab.daemon(["offload"], {"modules": {"offload": {"added_delay_free": "250ms"}}}) as daemon:
        going = lab.start_download(FILE, sha256=True)
        going.wait_bytes(500_000)
        if moved:
            assert system.wait_until(lambda: by_cellular(daemon) or not going.running(), 8) and going.running()
        daemon.kill()
        whole(lab, going.wait())
        assert system.wait_until(lambda: (left(lab), routes(lab)) == before, 3)


def test_killed_with_its_keeper_and_started_again(lab):
    """Then nobody is left to clean; traffic flows all the same, and the next start cleans, of empty chains the next end."""
    before = left(lab)
    with lab.daemon(["offload"]) as daemon:
        going = lab.start_download(SHORT, sha256=True)
        going.wait_bytes(500_000)
        keeper = daemon.api("/v1/status")["keeper"]["pid"]
        lab.client.run(["kill", "-9", str(keeper), str(daemon.pid)])
        daemon.process.wait()
        whole(lab, going.wait(), SHORT)
    with lab.daemon():
        assert system.wait_until(lambda: rules(lab) == "", 3)
    assert left(lab) == before


def test_started_again_and_again_it_fails_ever_more_seldom(lab, tmp_path):
    """As systemd does it, a second after each failure, for ever. A configuration with an error is not its business."""
    def fails(*words: str) -> tuple[int, float]:
        begun = time.monotonic()
        done = lab.client.run(["env", f"RUNTIME_DIRECTORY={tmp_path}", str(system.tandem_binary("tandemd")), *words], check=False, timeout=20)
        return done.returncode, time.monotonic() - begun

    (tmp_path / "file").touch()
    at_once = ["--socket", str(tmp_path / "file" / "control.sock")]
    for least, most in ((0.0, 1.0), (1.0, 2.0), (2.0, 3.5)):
        code, lasted = fails(*at_once)
        assert code == 1 and least <= lasted < most
    code, lasted = fails("--set", "nonsense=1")
    assert code == 2 and lasted < 1.0
    waiting = lab.client.popen(["env", f"RUNTIME_DIRECTORY={tmp_path}", str(system.tandem_binary("tandemd")), *at_once])  # 4 s
    time.sleep(1.0)
    assert waiting.poll() is None
    waiting.terminate()
    assert waiting.wait(1.0) == -signal.SIGTERM


def mangle_tables(lab) -> list[str]:
    """The tables of iptables-nft in which Tandem's chains are."""
    return re.findall(r"^table (\S+) mangle", lab.client.run(["nft", "list", "tables"]).stdout, re.MULTILINE)


def kill_with_rules_of_iptables(lab) -> None:
    """A daemon with iptables-nft and its keeper, under a download; their rules stay."""
    for version in mangle_tables(lab):
        lab.client.run(["nft", "delete", "table", version, "mangle"])
    with lab.daemon(["offload"], {"daemon": {"backend": "iptables"}}) as daemon:
        if daemon.api("/v1/status")["backend"]["name"] != "iptables-nft":
            pytest.skip("iptables-nft does not work here")
        going = lab.start_download(FILE)
        going.wait_bytes(500_000)
        assert mangle_tables(lab) == ["ip", "ip6"]
        keeper = daemon.api("/v1/status")["keeper"]["pid"]
        lab.client.run(["kill", "-9", str(keeper), str(daemon.pid)])
        daemon.process.wait()
        going.stop()
    assert mangle_tables(lab) == ["ip", "ip6"] and rules(lab)


@pytest.mark.parametrize("next_backend", ["iptables", "auto"])
def test_an_empty_table_of_a_killed_run_goes_with_the_next_one(lab, next_backend):
    """iptables-nft makes its table with the first rule, and never takes it away."""
    kill_with_rules_of_iptables(lab)
    # What somebody else has put there stays, and so does the table.
    lab.client.run(["ip6tables-nft", "-t", "mangle", "-A", "OUTPUT", "-p", "udp", "-j", "ACCEPT"])
    with lab.daemon([], {"daemon": {"backend": next_backend}}):
        pass
    assert mangle_tables(lab) == ["ip6"]
    lab.client.run(["nft", "delete", "table", "ip6", "mangle"])


def test_the_table_of_one_ip_version_goes_though_the_other_one_is_refused(lab):
    kill_with_rules_of_iptables(lab)
    with mangle_of_another(lab, "ip6", "add chain ip6 mangle TANDEM-OUT"):
        with lab.daemon():
            assert mangle_tables(lab) == ["ip6"]


def test_without_its_keeper_the_daemon_ends_with_a_failure(lab):
    """Nothing would take the rules away if it hung. A service manager starts it anew, which it does after a failure only."""
    before = left(lab), routes(lab)
    with lab.daemon(["offload"]) as daemon:
        going = lab.start_download(SHORT, sha256=True)
        going.wait_bytes(500_000)
        os.kill(daemon.api("/v1/status")["keeper"]["pid"], signal.SIGKILL)
        assert daemon.process.wait(10) == 1
        assert "the keeper process is gone" in daemon.log.read_text()
        assert (left(lab), routes(lab)) == before
        whole(lab, going.wait(), SHORT)


# What anybody could do to keep the daemon from starting: take the name, or the lock, first.
SQUATTER = r"""
import fcntl, os, socket, sys, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
named.bind("\0tandem-keeper")
held = []
for directory in ["/run/tandem", sys.argv[1]]:
    try:
        for name in os.listdir(directory):
            if name.endswith(".lock"):
                held.append(open(os.path.join(directory, name)))
                fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError:
        pass
print("ready", flush=True)
time.sleep(60)
"""


def test_an_unprivileged_user_cannot_take_the_daemons_place(lab):
    with lab.daemon() as daemon:
        daemon.stop()
        squatter = lab.client.popen([sys.executable, "-c", SQUATTER, str(lab.directory)], stdout=subprocess.PIPE, text=True)
        try:
            assert squatter.stdout.readline() == "ready\n"
            daemon.start()
        finally:
            squatter.kill()
            squatter.wait()


def test_a_second_daemon_of_the_same_network_is_refused(lab, tmp_path):
    """Rules and routes are the network's: another control socket does not make room for a second daemon."""
    with lab.daemon(["offload"]) as daemon:
        second = lab.client.run([str(system.tandem_binary("tandemd")), "-c", str(daemon.config_file), "--socket", str(tmp_path / "other.sock")],
                                check=False)
        assert second.returncode == 1
        assert f"another tandemd is running (process {daemon.pid})" in second.stderr
        assert daemon.api("/v1/status")["keeper"]["state"] in ("armed", "idle")


def test_rules_that_failed_are_tried_again_and_said_to_be_missing(lab):
    with lab.daemon(["offload"], {"daemon": {"backend": "iptables"}}) as daemon:
        assert system.wait_until(lambda: daemon.api("/v1/status")["datapath"]["bypassed"] and rules(lab) == "", 5)
        with mangle_of_another(lab):
            going = lab.start_download("100G", seconds=40)
            assert system.wait_until(lambda: not daemon.api("/v1/status")["rules"]["in_force"], 5)
            told = tandem(lab, daemon, "module", "offload", "on").stdout
            assert re.match("offload is on, not yet in force: iptables-(nft|legacy)-restore refused Tandem's rules", told), told
            assert re.search("not yet in force: .*, tried again in [0-9]+ s", tandem(lab, daemon, "status").stdout)
            module = next(one for one in daemon.api("/v1/modules") if one["name"] == "offload")
            assert module["enabled"] and not module["in_force"] and module["in_force_why"]
            assert rules(lab) == ""
        # Nobody asks for it again: the back-off of 1, 2, 4 s ends.
        assert system.wait_until(lambda: daemon.api("/v1/status")["rules"]["in_force"] and rules(lab) != "", 8)
        assert "the rules are not in force" in daemon.log.read_text()
        assert going.stop().error is None


def test_stopped_for_five_seconds_traffic_goes_on(lab):
    with lab.daemon(["offload"]) as daemon:
        going = lab.start_download("100G", seconds=20)
        going.wait_bytes(1_500_000)
        began = going.progress()[0]
        daemon.signal(signal.SIGSTOP)
        time.sleep(5)
        daemon.signal(signal.SIGCONT)
        samples = going.stop().samples
        after = [total for now, total in samples if began + 1.0 <= now <= began + 5.0]
        # Within a second it goes on, and not at a trickle: 4 s at a tenth of the rate would be about 1 MB.
        assert after[-1] - after[0] > 4_000_000
        status = daemon.api("/v1/status")
        assert status["keeper"]["suspensions"] == 1
        assert system.wait_until(lambda: daemon.api("/v1/status")["keeper"]["state"] in ("armed", "idle"), 3)


def test_full_queue_lets_packets_pass(lab):
    """Sixteen places and eight connections: what does not fit passes; nothing is lost."""
    with lab.daemon(["offload"], {"daemon": {"queue_length": 16}}):
        flows = [lab.start_download(SHORT, sha256=True, timeout=60) for _ in range(4)]
        for going in flows:
            whole(lab, going.wait(), SHORT)


def test_wifi_goes_and_comes_back(lab):
    with lab.daemon(["offload"]) as daemon:
        lab.client.run(["ip", "link", "set", "wlan0", "down"])
        assert system.wait_until(lambda: not daemon.api("/v1/status")["links"]["wifi"]["up"], 3)
        lab.client.run(["ip", "link", "set", "wlan0", "up"])
        lab.client.run(["ip", "route", "replace", "default", "via", topology.WIFI_GATEWAY[0], "dev", "wlan0", "metric", "100"])
        assert system.wait_until(lambda: daemon.api("/v1/status")["links"]["wifi"]["up"], 3)
        whole(lab, lab.download(SHORT, sha256=True), SHORT)
        assert queued(daemon) > 0


def test_without_a_second_interface(lab):
    with lab.daemon(["offload"], {"links": {"wifi": "wlan0", "cell": "none"}}) as daemon:
        whole(lab, lab.download(SHORT, sha256=True), SHORT)
        assert not daemon.api("/v1/status")["links"]["cell"]["present"]


def test_a_second_instance_is_refused(lab):
    with lab.daemon() as daemon:
        again = lab.client.run([str(system.tandem_binary("tandemd")), "-c", str(daemon.config_file)], check=False)
        assert again.returncode == 1
        assert str(daemon.pid) in again.stderr


def test_modules_that_cannot_be_trusted_are_refused(lab, tmp_path):
    good = system.tandem_binary("tandemd").parent.parent / "lib" / "tandem" / "offload.so"
    (tmp_path / "offload.so").write_bytes(good.read_bytes())
    (tmp_path / "offload.so").chmod(0o666)
    (tmp_path / "torn.so").write_bytes(good.read_bytes()[:5000])
    (tmp_path / "torn.so").chmod(0o644)
    tmp_path.chmod(0o755)
    with lab.daemon(config={"daemon": {"socket": str(lab.directory / "tandemd.sock"), "module_dir": str(tmp_path)}}) as daemon:
        status = daemon.api("/v1/status")
        assert status["modules"] == []
        assert any("others than root may write it" in problem for problem in status["problems"])
        assert any("torn.so" in problem for problem in status["problems"])
        whole(lab, lab.download(SHORT, sha256=True), SHORT)


@pytest.mark.parametrize(("text", "line", "words"), [
    ('[links]\nwifi = ""\n', 2, "links.wifi"),
    ('[links]\nwifi = "wlan0"\n[modules.offload]\nwindow_mss = "many"\n', 4, "window_mss"),
    ('[links]\nwifi = "wlan0"\n[modules.ofload]\n', 3, "ofload"),
    ('[daemon]\nqueue = 70000\n', 2, "daemon.queue"),
])
def test_bad_configuration_is_named_by_line(lab, tmp_path, text, line, words):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    done = lab.client.run([str(system.tandem_binary("tandemd")), "-c", str(file)], check=False, timeout=20)
    assert done.returncode == 2
    assert f"bad.toml:{line}:" in done.stderr and words in done.stderr
    assert left(lab) == ""


def test_full_flow_table_passes_new_flows(lab):
    lab.add_file("300k", bytes(300_000))
    with lab.daemon(["offload"], {"daemon": {"max_flows": 16}}) as daemon:
        assert lab.download("300k", flows=20, timeout=90).error is None
        flows = daemon.api("/v1/status")["flows"]
        assert flows["count"] <= 16 and flows["refused"] > 0


def test_recording_names_the_reason(lab, tmp_path):
    with lab.daemon(["offload"]) as daemon:
        whole(lab, lab.download(FILE, sha256=True))
        file = tmp_path / "t.pcapng"
        tandem(lab, daemon, "trace", "save", str(file))
        printed = tandem(lab, daemon, "trace", "print", str(file)).stdout
        assert "offload: " in printed


def test_status_for_people_and_programs(lab):
    with lab.daemon(["offload"]) as daemon:
        assert "offload" in tandem(lab, daemon, "status").stdout
        assert json.loads(tandem(lab, daemon, "status", "--json").stdout)["links"]["wifi"]["interface"] == "wlan0"
        assert "offload" in [entry["name"] for entry in json.loads(tandem(lab, daemon, "module", "--json").stdout)]
        bad = tandem(lab, daemon, "set", "offload.window_mss", "lots", check=False)
        assert bad.returncode == 2 and "window_mss" in bad.stderr
        retired = tandem(lab, daemon, "set", "freeze.kick_gap", "20ms", check=False)
        assert retired.returncode == 2 and "kick_gap is a constant now: 10 ms" in retired.stderr
        tandem(lab, daemon, "set", "offload.window_mss", "33")
        offload = next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "offload")
        knobs = {knob["name"]: knob["value"] for knob in offload["knobs"]}
        assert knobs["window_mss"] == "33"
        metrics = daemon.api("/metrics")
        assert re.search(r"^tandem_module_enabled\{module=\"offload\"\} 1$", metrics, re.M)
        documented_metrics(metrics, daemon.api("/v1/status")["datapath"])


def documented_metrics(metrics: str, datapath: dict) -> None:
    """Every metric is one of docs/control-api.md, and of the datapath its table has every member and no other."""
    page = (ROOT / "docs" / "control-api.md").read_text()
    table = page[page.index("## Datapath"):page.index("## Blackouts")]
    members = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`([a-z_]+)`", row)}
    assert members == set(datapath)
    names = set(re.findall(r"^# TYPE (\S+)", metrics, re.M))
    told = set(re.findall(r"`(tandem_[a-z0-9_]+)`", page)) | {f"tandem_datapath_{name}_total" for name in members}
    assert len(names) > 60 and not names - told, names - told


def test_module_pages_are_what_the_module_says(lab):
    """docs/modules is written by `tandem help MODULE`; a change of a knob is a change of its page."""
    with lab.daemon() as daemon:
        for module in daemon.api("/v1/modules"):
            page = ROOT / "docs" / "modules" / f"{module['name']}.md"
            assert tandem(lab, daemon, "help", module["name"]).stdout.rstrip() == page.read_text().rstrip(), f"tandem help {module['name']} > {page}"


def test_checksum_of_the_file_is_the_real_one(lab):
    """The yardstick of this file: the checksum that downloads are held against is that of the server's bytes."""
    served = (lab.directory / "www" / lab.random_file["name"]).read_bytes()
    assert hashlib.sha256(served).hexdigest() == lab.random_file["sha256"]
