"""The bench `drawn`: its networks, settings and rows, with made-up runs."""

from __future__ import annotations

import tomllib

import pytest

from tandem_bench import drawn
from tandem_bench.benches import drawn as bench
from tandem_bench.model import Run
from tandem_lab.errors import BadInput


def test_a_number_gives_the_same_network_everywhere() -> None:
    """Results name networks by number: what is drawn for one must never change. A change of the drawing needs another name than `network`."""
    assert drawn.network(1, 15.0).name == "1: 2 x cubic, 34 ms, 802.11n"
    assert drawn.network(1, 15.0).told == ["wire 14.2/0.58 Mb/s", "of 34 packets", "no cellular", "silence 0.9 s (drop)"]
    assert drawn.network(8, 15.0).told == ["CoDel at the access point", "1.6 % later by 4 ms", "3g", "NAT"]


def test_networks_can_be_read_and_have_names_of_their_own() -> None:
    networks = [drawn.network(number, 15.0) for number in range(1, 201)]
    assert len({network.name for network in networks}) == len(networks)
    for network in networks:
        told = tomllib.loads(network.scenario)
        assert told["server"][0]["congestion"] == network.sender
        assert told["cell"]["profile"] == network.cellular
        assert all(event["at"].endswith("s") for event in told.get("timeline", ()))


def test_everything_that_can_be_drawn_is_drawn() -> None:
    networks = [drawn.network(number, 15.0) for number in range(1, 201)]
    assert {network.sender for network in networks} == set(drawn.SENDERS)
    assert {network.flows for network in networks} == set(drawn.FLOWS)
    assert {network.phy for network in networks} == set(drawn.PHYS)
    assert {network.cellular for network in networks} == set(drawn.CELLS)


def test_settings_choose_the_networks() -> None:
    cases = bench.BENCH.configured(bench.BENCH.cases(False), {"first": "61", "networks": "3"})
    assert [case.parameters["network"].number for case in cases] == [61, 62, 63]
    for key, value in (("networks", "0"), ("first", "x"), ("sender", "windows"), ("load", "beside")):
        with pytest.raises(BadInput, match=f"--set {key}={value}: allowed"):
            bench.BENCH.configured(cases, {key: value})


@pytest.mark.parametrize("sender, control", [("reno", "reno"), ("gvisor", "cubic")])
def test_another_sender_changes_nothing_else_of_the_networks(sender: str, control: str) -> None:
    for case in bench.BENCH.configured(bench.BENCH.cases(True), {"sender": sender}):
        network = case.parameters["network"]
        assert (network.sender, tomllib.loads(network.scenario)["server"][0]["congestion"]) == (sender, control)
        assert network.told == drawn.network(network.number, 15.0).told


def test_an_application_waits_over_the_same_networks() -> None:
    (case,) = bench.BENCH.configured(bench.BENCH.cases(True), {"load": "pages", "first": "8", "networks": "1"})
    assert case.name == "8: pages, reno, 259 ms, 802.11n"
    assert case.published == ", ".join(drawn.network(8, 15.0).told)
    assert [metric.name for metric in case.metrics] == ["typical wait", "longest wait"]
    assert [goal.sense for goal in case.goals] == ["<="]
    with pytest.raises(BadInput, match="load=pages needs nginx, which --set sender=gvisor is not"):
        bench.BENCH.configured(bench.BENCH.cases(True), {"load": "pages", "sender": "gvisor"})


def test_rows_of_a_sender_and_of_all_pair_a_network_and_a_seed() -> None:
    cases = bench.cases_of(1, 12, (bench.PLAIN, bench.ALL), 1)
    runs = [Run(case.name, arm, 1, 0, 1.0, {"goodput": goodput}, {}) for case in cases for arm, goodput in (("plain", 2.0), ("all", 3.0))]
    rows = {case.name: pooled for case, pooled in bench.BENCH.summarise(cases, runs)}
    assert len({run.seed for run in rows["all networks"]}) == 12
    cubic = [case for case in cases if case.parameters["network"].sender == "cubic"]
    assert len({run.seed for run in rows["cubic, all cells"]}) == len(cubic)
