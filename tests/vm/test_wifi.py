"""The kernel's own Wi-Fi stack on two simulated radios: ground for the feeder, which reads what drivers say."""

from __future__ import annotations

import re

from conftest import Guest


def test_a_station_associates_and_the_driver_tells_of_it(guest: Guest) -> None:
    result = guest("wifi.sh")
    assert result.exit_code == 0
    assert "Connected to 02:00:00:00:00:00" in result.output
    assert "5 received" in result.output
    assert "monitor monitor" in result.output
    station = dict(re.findall(r"^\s*([a-z ]+):\s+(.+)$", result.output, re.MULTILINE))
    assert station["associated"] == "yes"
    assert re.match(r"-\d+ dBm", station["signal"])
    assert int(station["tx packets"]) > 0
    assert {"tx retries", "tx failed", "rx bitrate", "tx bitrate"} <= station.keys()
