"""Arms, quantities, workloads' answers, what makes a pair not count, plan and verdicts: each by itself."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import pytest

from tandem_ab import analysis, arms, plan, quantities, report, runner, surroundings, workloads
from tandem_common.errors import BadInput

KNOWN = ["freeze", "mirror", "offload", "ecn"]


# -- arms


def test_a_single_setting_is_compared_with_off() -> None:
    base, other = arms.parse("offload+mirror", KNOWN)
    assert (base.name, base.modules) == ("off", frozenset()) and other.modules == {"offload", "mirror"}


def test_settings_with_knobs_and_the_three_standing_ones() -> None:
    off, queued, on = arms.parse("off:queued:offload.window_mss=30", KNOWN)
    assert not off.modules and queued.modules == {"offload"} and queued.knobs == {"offload.strategy": "fraction", "offload.fraction": "0"}
    assert on.modules == {"offload"} and on.knobs == {"offload.window_mss": "30"}


@pytest.mark.parametrize("text", ["nonsense", "off:off", "off", "offload:", "offload+", "offload.window_mss", "offload.x=", "a b"])
def test_a_wrong_setting_is_refused_and_says_what_is_allowed(text: str) -> None:
    with pytest.raises(BadInput, match="allowed|same one twice"):
        arms.parse(text, KNOWN)


# -- quantities


def test_quantities_as_a_user_writes_and_reads_them() -> None:
    assert quantities.duration("--for", "1.5min") == 90 and quantities.duration("--for", "250ms") == 0.25
    assert quantities.share("--until", "5%", 0, 1) == quantities.share("--until", "0.05", 0, 1) == 0.05
    assert [quantities.percent(math.log1p(value)) for value in (0.0512, -0.031, 0.31)] == ["+5.1 %", "-3.1 %", "+31 %"]
    assert [quantities.size(value) for value in (12, 1500, 2.5e9, 1.2e12)] == ["12 B", "1.5 kB", "2.5 GB", "1200 GB"]
    for wrong in ("10", "s", "-1s", "5 s", "0.1s"):
        with pytest.raises(BadInput, match="allowed"):
            quantities.duration("--for", wrong, 0.2)
    for wrong in ("200%", "x", "nan"):
        with pytest.raises(BadInput, match="allowed"):
            quantities.share("--until", wrong, 0.001, 1)


# -- answers


@pytest.mark.parametrize("told, cut, reason", [
    ({"http_code": 200, "exitcode": 0}, True, ""), ({"http_code": 200, "exitcode": 28}, True, ""),
    ({"http_code": 0, "exitcode": 28}, True, "curl: "), ({"http_code": 200, "exitcode": 28}, False, "curl: "),
    ({"http_code": 429, "exitcode": 0}, True, "throttles"), ({"http_code": 503, "exitcode": 0}, True, "throttles"),
    ({"http_code": 404, "exitcode": 0}, True, "srv.test answered HTTP 404"), ({"http_code": 302, "exitcode": 0}, True, "srv.test answered HTTP 302"),
    ({"http_code": 200, "exitcode": 18, "errormsg": "end of response with 5 bytes missing"}, True, "5 bytes missing"),
    ({"http_code": 0, "exitcode": 6, "errormsg": "Could not resolve host: srv.test"}, True, "Could not resolve")])
def test_only_whole_answers_count(told: dict, cut: bool, reason: str) -> None:
    found = workloads.fault_of(told | {"url_effective": "http://srv.test/x"}, "curl: (28) timed out", cut)
    assert bool(found) == bool(reason) and reason in found


def test_iperf3_is_recognised_and_its_errors_are_told() -> None:
    good = {"end": {"sum_received": {"bits_per_second": 12.5e6, "bytes": 1000, "seconds": 2.0}}}
    assert workloads.iperf_outcome(json.dumps(good), "", 2.0).figure == 12.5
    assert "the server is busy" in workloads.iperf_outcome('{"error": "the server is busy"}', "", 0.1).reason
    assert "no JSON" in workloads.iperf_outcome("", "", 0.1).reason and workloads.iperf_outcome('{"end": {}}', "", 1).reason


@pytest.mark.parametrize("argv, figure, words", [
    (["iperf3", "-c", "x"], "", "-J"), (["true"], "", "--figure"), (["true"], "(", "--figure"), (["true"], "x", "one group"), (["no-such-program"], "time", "no such command")])
def test_a_command_without_a_figure_is_refused(argv: list[str], figure: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        workloads.Command(argv, figure, False)


def test_a_command_gives_its_figure_or_says_why_not() -> None:
    assert workloads.Command(["echo", "rate 12.5 Mb/s"], r"rate (\S+)", False).run().figure == 12.5
    assert "no positive number" in workloads.Command(["echo", "nothing"], r"rate (\S+)", False).run().reason
    assert "no positive number" in workloads.Command(["echo", "rate inf Mb/s"], r"rate (\S+)", False).run().reason
    assert "exit code 1" in workloads.Command(["false"], "time", False).run().reason
    timed = workloads.Command(["sleep", "0.2"], "time", False)
    assert 0.2 <= timed.run().figure < 2 and timed.smaller_is_better


# -- what stands beside a trial


MOMENT = surroundings.Moment(at=0.0, awake=100.0, interface="wlan0", addresses=("10.0.0.2",), up=True, access_point="a", radio={"signal_dbm": -50}, survey=(100.0, 1000.0),
                             cell_up=True, cell_bytes=1000, faults=0, decisions={"offload: by cellular": 5}, cell_by_module={"offload": 900, "mirror": 100}, daemon_cpu=1.0, own_cpu=2.0, busy_cpu=10.0, joules=5.0, watts=None)


def later(**changes) -> surroundings.Moment:
    return dataclasses.replace(MOMENT, **{"at": 10.0, **changes})


def test_differences_are_of_the_trial_alone() -> None:
    after = later(cell_bytes=3000, cell_by_module={"offload": 2800, "mirror": 100}, daemon_cpu=1.5, own_cpu=3.0, busy_cpu=16.5, joules=45.0, survey=(350.0, 2000.0), decisions={"offload: by cellular": 9, "x": 2})
    beside = surroundings.between(MOMENT, after, cores=2)
    assert (beside.cell_bytes, beside.daemon_cpu_s, beside.energy_j, beside.energy_from, beside.channel_busy, beside.by_cellular) == (2000, 0.5, 40.0, "rapl", 0.25, 4)
    assert beside.cell_by_module == {"offload": 1900}
    assert beside.others_cpu == pytest.approx(0.25)
    assert surroundings.between(dataclasses.replace(MOMENT, joules=None, watts=4.0), later(joules=None, watts=6.0), 2).energy_j == pytest.approx(50)


@pytest.mark.parametrize("changes, reason", [
    ({}, ""), ({"access_point": "b"}, "roamed from a to b"), ({"interface": "wlan1"}, "interface changed"), ({"addresses": ("10.0.0.9",)}, "addresses"),
    ({"awake": 160.0}, "suspended for 60 s"), ({"process": "8 900", "cell_bytes": 0}, "tandemd was started anew"), ({"busy_cpu": 28.0}, "other programs used 90 %"), ({"access_point": ""}, "")])
def test_a_disturbed_trial_says_why_it_does_not_count(changes: dict, reason: str) -> None:
    after = later(**changes)
    found = surroundings.disturbance(MOMENT, MOMENT, after, surroundings.between(MOMENT, after, 2), 0.5)
    assert (reason in found) if reason else not found


def test_energy_is_read_where_the_machine_tells(tmp_path, monkeypatch) -> None:
    def tree(name: str, **files: object) -> None:
        (tmp_path / name).mkdir(parents=True)
        for file, content in files.items():
            (tmp_path / name / file).write_text(f"{content}\n")

    monkeypatch.setattr(surroundings, "_SUPPLIES", tmp_path / "supplies")
    monkeypatch.setattr(surroundings, "_POWERCAP", tmp_path / "powercap")
    assert surroundings._battery() is None and surroundings._rapl() is None
    tree("supplies/AC", type="Mains", online=0)
    tree("supplies/hidpp_battery_0", type="Battery", scope="Device", status="Discharging", power_now=9_000_000)
    tree("supplies/BAT0", type="Battery", status="Charging", power_now=20_000_000)
    assert surroundings._battery() is None
    tree("supplies/macsmc-battery", type="Battery", status="Discharging", power_now=-5_500_000)
    tree("supplies/CMB1", type="Battery", status="Discharging", current_now=500_000, voltage_now=12_000_000)
    assert surroundings._battery() == pytest.approx(11.5)
    tree("powercap/intel-rapl:0", energy_uj=3_000_000)
    tree("powercap/intel-rapl:1", energy_uj=500_000)
    tree("powercap/intel-rapl:0:0", energy_uj=7_000_000)  # a part of the first one
    assert surroundings._rapl() == pytest.approx(3.5)


def test_an_unvalidated_path_counts_only_for_arms_that_need_none() -> None:
    after = later(decisions={"offload: by cellular": 5, "offload: path not validated (filtered, NAT or too slow)": 1})
    beside = surroundings.between(MOMENT, after, 2)
    assert "not validated" in surroundings.unvalidated(True, after, beside)
    assert not surroundings.unvalidated(False, after, beside) and not surroundings.unvalidated(True, dataclasses.replace(after, cell_up=False), beside)


# -- order, plan, verdicts


def test_the_coin_is_repeatable_and_has_no_period() -> None:
    both = arms.parse("offload", KNOWN)
    firsts = [runner.order(both, 7, number)[0].name for number in range(200)]
    assert firsts == [runner.order(both, 7, number)[0].name for number in range(200)] and 70 < firsts.count("off") < 130
    assert 60 < sum(one == other for one, other in zip(firsts, firsts[2:])) < 140


def a_plan(**changes) -> plan.Plan:
    usual = dict(arms=2, block_s=13.0, guessed_block=False, washout_s=2.0, most_s=2400.0, until=0.05, deviation=None, done=0, rate_mbps=None, bytes_of_block=None, offload=1, steady=True)
    return plan.Plan(**usual | changes)


def test_the_cost_is_told_before_it_begins() -> None:
    words = " ".join(a_plan(rate_mbps=40.0).lines())
    assert "0:30" in words and "45 if" in words.replace(",", "") and "22:30" in words and "5.85 GB" in words and "58.5 MB" in words and "Too little" not in words
    assert "for every 10 Mb/s" in " ".join(a_plan().lines())


def test_amounts_have_no_powers_of_ten() -> None:
    assert [quantities.size(number) for number in (999, 999_499, 999_500, 999_999_999, 5e12)] == ["999 B", "999 kB", "1 MB", "1 GB", "5000 GB"]
    assert "at 1440 Mb/s" in "\n".join(a_plan(rate_mbps=1440.0).lines())


def test_too_little_power_is_told_with_what_would_do() -> None:
    assert "Too little time: below 8 pairs" in " ".join(a_plan(most_s=100.0).lines())
    words = " ".join(a_plan(most_s=600.0).lines())
    assert "Too little power" in words and "45 pairs are needed, --most 23min" in words
    assert a_plan(done=40, deviation=0.1).pairs == 5 and a_plan(done=60, deviation=0.1).pairs == 0


def made(*gains: float, arm: str = "offload", discarded: str = "") -> list[dict]:
    return [{"number": number, "began": 1000.0 + 30 * number, "seconds": 30.0, "order": ["off", arm], "discarded": discarded,
             "trials": {"off": {"figure": 10.0, "bytes": 100, "seconds": 10.0, "wall_s": 10.0, "beside": {}},
                        arm: {"figure": 10.0 * (1 + gain), "bytes": 130, "seconds": 10.0, "wall_s": 10.0, "beside": {"cell_bytes": 50}}}} for number, gain in enumerate(gains)]


def test_what_went_by_cellular_stands_beside_the_gain_with_the_share_of_each_module() -> None:
    pairs = made(*[0.2] * 10)
    head = {"arms": [{"name": "off"}, {"name": "offload"}], "smaller_is_better": False, "until": 0.05, "null": False}
    words, = report.Result(head, pairs).verdicts()
    assert words.startswith("offload gains +20") and words.endswith("; by cellular 50 B a trial")
    for pair in pairs:
        pair["trials"]["offload"]["beside"] |= {"cell_by_module": {"mirror": 20, "offload": 30}}
        pair["trials"]["off"]["beside"] |= {"cell_bytes": 7}
    words, = report.Result(head, pairs).verdicts()
    assert words.endswith("; by cellular 50 B (mirror 20 B, offload 30 B) a trial, 7 B in off")
    cost = analysis.costs(pairs, ["off", "offload"])[1]
    assert cost.cell_by_module == {"mirror": 20, "offload": 30} and report.cell_words(cost) == "50 B (mirror 20 B, offload 30 B)"


NOISE = (0.02, -0.01, 0.03, -0.03, 0.01, -0.02, 0.0, 0.005, -0.01, 0.015)


@pytest.mark.parametrize("gains, until, null, word, said", [
    (NOISE[:7], 0.05, False, "too few", "7 pairs, and below 8 nothing is claimed"),
    ([0.3 + value for value in NOISE], 0.05, False, "gain", "offload gains +30 % (+28 % to"),
    ([-0.3 + value for value in NOISE], 0.05, False, "loss", "offload loses: -30 %"),
    (NOISE, 0.05, False, "nothing", "nothing found: if offload has an effect here, it is within -"),
    (NOISE, 0.01, False, "undecided", "more pairs until the interval is +-1 %"),
    (NOISE, 0.05, True, "nothing", "quiet: two equal settings do not differ, "), (NOISE, 0.01, True, "undecided", "not known to be quiet: "), ([0.3 + value for value in NOISE], 0.05, True, "gain", "not quiet")])
def test_verdicts(gains, until: float, null: bool, word: str, said: str) -> None:
    one, = analysis.compare(made(*gains), ["off", "offload"], False, until)
    assert one.word == word and analysis.sentence(one, until, null).startswith("quiet") == said.startswith("quiet")
    assert said in analysis.sentence(one, until, null)


def test_a_setting_in_which_more_is_lost_than_in_the_other_is_told() -> None:
    def said(in_off: int, in_arm: int) -> str:
        pairs = made(*NOISE)
        for arm, number in (("off", in_off), ("offload", in_arm)):
            for _ in range(number):
                lost, = made(0.1, discarded=f"{arm}: curl: (56) reset")
                lost["trials"][arm]["lost"] = True
                pairs.append(lost)
        return analysis.lopsided(pairs, ["off", "offload"])

    assert "failed 8 times in offload and 0 times in off" in said(0, 8) and "in off and 1 time in offload" in said(11, 1)
    assert "100 times in offload and 0 times in off" in said(0, 1100), "of a month"
    assert said(0, 0) == said(0, 7) == said(4, 10) == ""
    disturbed = made(*NOISE) + made(*[0.1] * 9, discarded="offload: roamed")
    assert analysis.lopsided(disturbed, ["off", "offload"]) == "", "what was around it is nobody's fault"


@pytest.mark.parametrize("arms", [["off", "offload"], ["off", "offload", "mirror"]])
def test_who_looks_after_every_failure_is_seldom_warned_of_equal_settings(arms: list[str]) -> None:
    """Reports are written after each pair. A test made for one look warned in a quarter of such experiments."""
    def warned(seed: int) -> bool:
        coin, pairs = random.Random(seed), []
        for _ in range(120):
            pairs.append({"discarded": "reset", "trials": {coin.choice(arms): {"lost": True}}})
            if analysis.lopsided(pairs, arms):
                return True
        return False

    assert sum(map(warned, range(400))) <= 0.05 * 400


def test_pairs_left_out_for_one_setting_alone_narrow_what_is_claimed() -> None:
    """Those in which offload could not act were left out, and the gain of the others stood there as the gain."""
    head = {"arms": [{"name": "off"}, {"name": "offload"}], "smaller_is_better": False, "until": 0.05, "null": False, "unit": ""}
    reason = "offload: " + surroundings.unvalidated(True, MOMENT, dataclasses.replace(surroundings.between(MOMENT, MOMENT, 1), not_validated=1))
    notes = " ".join(report.Result(head, made(*[0.2] * 10) + made(*[0.0] * 5, discarded=reason)).notes())
    assert "In 5 pairs the cellular path was not validated" in notes and "that of the 10 pairs that count" in notes and "may be smaller" in notes
    assert "In one pair" in analysis.only_validated(made(0.2) + made(0.2, discarded=reason))
    assert "may be smaller" not in " ".join(report.Result(head, made(*[0.2] * 10) + made(0.1, discarded="offload: roamed")).notes())


def test_a_rate_that_the_server_limits_is_told() -> None:
    def said(pairs: list[dict]) -> str:
        head = {"arms": [{"name": "off"}, {"name": "offload"}], "smaller_is_better": False, "until": 0.05, "null": False, "unit": "Mb/s"}
        return " ".join(report.Result(head, pairs).notes())

    same = [0.001 * value for value in NOISE]
    assert "10 Mb/s, within 0." in said(made(*same)) and "faster server" in said(made(*same))
    assert said(made(*same[:7])) == "" and said(made(*NOISE)) == ""
    for factor, told in ((3.0, "3 times as fast during its warm-up"), (1.2, "")):
        pairs = made(*NOISE)
        for pair in pairs:
            for trial in pair["trials"].values():
                trial["beside"]["warm_up_mbps"] = factor * trial["figure"]
        assert (told in said(pairs)) if told else said(pairs) == ""
        pairs[3]["trials"]["off"]["beside"]["warm_up_mbps"] = 1.0
        assert said(pairs) == ""


def test_smaller_figures_may_be_better_and_discarded_pairs_do_not_count() -> None:
    one, = analysis.compare(made(*[0.3] * 9) + made(5.0, discarded="roamed"), ["off", "offload"], True, 0.05)
    assert one.pairs == 9 and one.word == "loss"
    assert analysis.compare(made(0.3, discarded="x"), ["off", "offload"], False, 0.05)[0].pairs == 0


def test_several_comparisons_have_wider_intervals() -> None:
    pairs = made(*[0.3 + value for value in NOISE])
    for pair in pairs:
        pair["trials"]["mirror"] = pair["trials"]["offload"]
    alone, = analysis.compare(pairs, ["off", "offload"], False, 0.05)
    first, second = analysis.compare(pairs, ["off", "offload", "mirror"], False, 0.05)
    assert first.low < alone.low and first.low == second.low


def test_a_gain_that_fades_is_told() -> None:
    one, = analysis.compare(made(*[0.5 - 0.03 * number + 0.01 * (-1) ** number for number in range(15)]), ["off", "offload"], False, 0.05)
    assert "changed over time" in analysis.drift_sentence(one)
    one, = analysis.compare(made(*NOISE), ["off", "offload"], False, 0.05)
    assert analysis.drift_sentence(one) == ""
