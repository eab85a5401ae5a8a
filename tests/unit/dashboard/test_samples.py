"""Differences between looks at made-up answers of the daemon."""

from __future__ import annotations

from tandem_dashboard.samples import FLOWS_SHOWN, Samples, grown


def flow(number: int, delivered: float, **more):
    return {"id": number, "remote": f"192.0.2.{number}:443", "local": "10.0.0.2:5000", "link": "wifi", "age_s": 60.0, "rtt_ms": 0.0, "delivered_bytes": delivered, **more}


def status(decisions=None, pid=7, **link):
    return {"pid": pid, "version": "1", "uptime_s": 5, "links": {"wifi": {"interface": "wlan0", "bytes_out": 0, **link}}, "datapath": {"cell_bytes": 12},
            "modules": [{"name": "offload", "enabled": True, "cell_bytes": 9, "decisions": decisions or {}, "knobs": ["left out"]}]}


def wifi(sample):
    return sample["point"]["links"]["wifi"]


def test_a_counter_grows_from_the_second_look_on_and_never_backwards():
    assert grown(None, 5) is None and grown(7, 5) is None and grown(3, 5) == 2


def test_goodput_is_what_was_delivered_between_two_looks():
    samples = Samples()
    assert wifi(samples.take(100.0, 1.0, status(), [flow(1, 5e6)]))["goodput_mbps"] is None
    second = samples.take(102.0, 3.0, status(), [flow(1, 6e6), flow(2, 1e6, age_s=1.5)])
    assert wifi(second)["goodput_mbps"] == 8.0  # 1 MB each in 2 s
    assert [one["now_mbps"] for one in second["flows"]] == [4.0, 4.0] and second["point"]["t"] == 102.0


def test_an_old_flow_that_was_not_told_before_is_no_burst():
    samples = Samples()
    samples.take(0, 1.0, status(), [flow(1, 0)])
    assert wifi(samples.take(0, 2.0, status(), [flow(1, 0), flow(2, 9e9)]))["goodput_mbps"] == 0


def test_round_trips_count_by_what_their_flows_bring():
    samples = Samples()
    samples.take(0, 1.0, status(), [flow(1, 0), flow(2, 0), flow(3, 0)])
    flows = [flow(1, 3e6, rtt_ms=10.0), flow(2, 1e6, rtt_ms=50.0), flow(3, 0, rtt_ms=900.0), flow(4, 0, rtt_ms=5.0, link="cell")]
    assert wifi(samples.take(0, 2.0, status(), flows))["rtt_ms"] == 20.0
    assert wifi(samples.take(0, 3.0, status(), flows))["rtt_ms"] is None  # nothing came


def test_radio_is_told_in_the_charts_units_and_absent_is_null():
    known = wifi(Samples().take(0, 1.0, status(radio={"signal_dbm": -61, "packet_time_us": 431.0}), []))
    assert known["signal_dbm"] == -61 and known["packet_time_ms"] == 0.431
    assert wifi(Samples().take(0, 1.0, status(), [])) == {"goodput_mbps": 0, "rtt_ms": None, "signal_dbm": None, "packet_time_ms": None}


def test_decisions_are_differences_the_most_frequent_reason_first():
    samples = Samples()
    assert samples.take(0, 1.0, status({"a": 10, "b": 3}), [])["point"]["decisions"] == {}
    assert samples.take(0, 2.0, status({"a": 12, "b": 9, "c": 1}), [])["point"]["decisions"] == {"offload": [("b", 6), ("a", 2), ("c", 1)]}
    assert samples.take(0, 3.0, status({"a": 12, "b": 9, "c": 1}), [])["point"]["decisions"] == {}


def test_a_daemon_started_anew_begins_the_differences_anew():
    samples = Samples()
    samples.take(0, 1.0, status({"a": 10}), [flow(1, 0)])
    again = samples.take(0, 2.0, status({"a": 50}, pid=8, bytes_out=900), [flow(1, 9e6)])
    assert again["point"]["decisions"] == {} and wifi(again)["goodput_mbps"] is None and again["links"][0]["bytes_out_per_s"] is None


def test_a_look_after_a_pause_is_no_second_of_its_length():
    samples = Samples()
    samples.take(0, 1.0, status({"a": 10}), [flow(1, 0)])
    late = samples.take(3600, 3601.0, status({"a": 90_000}, bytes_out=9e6), [flow(1, 9e9)])
    assert wifi(late)["goodput_mbps"] is None and late["point"]["decisions"] == {} and late["links"][0]["bytes_out_per_s"] is None
    after = samples.take(3601, 3602.0, status({"a": 90_001}, bytes_out=9e6), [flow(1, 9e9 + 1e6)])
    assert wifi(after)["goodput_mbps"] == 8.0 and after["point"]["decisions"] == {"offload": [("a", 1)]}


def test_a_clock_that_is_set_back_does_not_stop_the_charts():
    samples = Samples()
    times = [samples.take(wall, at, status(), [])["point"]["t"] for wall, at in ((5000.0, 1.0), (5001.0, 2.0), (1400.0, 3.0), (1401.0, 4.0), (6000.0, 5.0))]
    assert times == [5000.0, 5001.0, 5002.0, 5003.0, 6000.0]


def test_what_tandem_sends_by_a_link_is_told_per_second():
    samples = Samples()
    samples.take(0, 1.0, status(bytes_out=100), [])
    sample = samples.take(0, 3.0, status(bytes_out=500), [])
    assert sample["links"][0]["bytes_out_per_s"] == 200 and sample["cell_bytes"] == 12
    assert "knobs" not in sample["modules"][0] and sample["modules"][0]["cell_bytes"] == 9


def test_wifi_comes_before_cellular():
    sample = Samples().take(0, 1.0, {"links": {"cell": {}, "wifi": {}, "wifi2": {}}}, [])
    assert list(sample["point"]["links"]) == [link["name"] for link in sample["links"]] == ["wifi", "wifi2", "cell"]


def test_what_is_left_alone_says_why():
    sample = Samples().take(0, 1.0, {**status(), "hands_off": "wg0 has the default route", "problems": ["x.so: no module"]}, [flow(1, 0, excluded="user backup")])
    assert sample["flows"][0]["excluded"] == "user backup"
    assert sample["problems"] == ["hands off all flows: wg0 has the default route", "x.so: no module"]
    assert Samples().take(0, 1.0, {**status(), "hands_off": ""}, [])["problems"] == []


def test_of_many_flows_the_fastest_are_shown():
    samples = Samples()
    samples.take(0, 1.0, status(), [flow(n, 0) for n in range(200)])
    sample = samples.take(0, 2.0, status(), [flow(n, n * 1e3) for n in range(200)])
    assert sample["flow_count"] == 200 and [one["id"] for one in sample["flows"]] == list(range(199, 199 - FLOWS_SHOWN, -1))
