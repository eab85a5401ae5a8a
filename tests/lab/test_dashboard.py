"""`tandem dashboard` beside a download: who is refused, and in headless Chromium that it loads, moves, and switches a module."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from tandem_lab import system, virtual


@contextmanager
def dashboard(daemon):
    """The program, and the address it prints."""
    words = [str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "dashboard", "--no-browser"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
        assert process.returncode == 0 and not said, said


def ask(port, method, path, content=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    own = {"Host": f"127.0.0.1:{port}", **({"Origin": f"http://127.0.0.1:{port}"} if method != "GET" else {})}
    connection.request(method, path, None if content is None else json.dumps(content), {**own, **headers})
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def modules_on(daemon) -> set[str]:
    return {module["name"] for module in daemon.api("/v1/modules") if module["enabled"]}


def test_only_who_has_the_printed_address_reads_and_switches(air_lab):
    with air_lab.daemon(["offload"]) as daemon, dashboard(daemon) as (address, _):
        port, token = urlsplit(address).port, urlsplit(address).fragment.removeprefix("token=")
        assert ask(port, "GET", "/")[0] == 200
        assert ask(port, "POST", "/session", {"token": "guessed"})[0] == 403
        code, headers, body = ask(port, "POST", "/session", {"token": token})
        assert code == 200
        base, cookie = json.loads(body)["base"], headers["Set-Cookie"].split(";")[0]
        assert ask(port, "POST", "/session", {"token": token})[0] == 403, "used"
        off = "PUT", base + "/modules/offload", {"enabled": False}
        for refused in ({}, {"Cookie": cookie, "Origin": "http://example.org"}, {"Cookie": cookie, "Host": f"example.org:{port}"}):
            assert ask(port, *off, **refused)[0] == 403
        assert modules_on(daemon) == {"offload"}
        assert ask(port, *off, Cookie=cookie)[0] == 200
        assert modules_on(daemon) == set()
        assert ask(port, "GET", base + "/recording", Cookie=cookie)[2][:4] == b"\x0a\x0d\x0d\x0a"


def test_without_a_daemon_it_says_how_to_start_one(tmp_path):
    done = subprocess.run([str(system.tandem_binary("tandem")), "--socket", str(tmp_path / "none"), "dashboard", "--no-browser"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "tandem up" in done.stderr and not done.stdout
    wrong = subprocess.run([str(system.tandem_binary("tandem")), "dashboard", "--port", "70000"], capture_output=True, text=True, timeout=30)
    assert wrong.returncode == 2 and "65535" in wrong.stderr


@pytest.fixture
def browser(tmp_path):
    """Headless Chromium; it runs on this machine, and what it asks for goes by loopback."""
    if virtual.inside():
        pytest.skip("a browser computes for longer than its own time limits in virtual time")
    try:
        from selenium import webdriver
    except ImportError:
        pytest.skip("python3-selenium is not installed (tools/install-deps browser)")
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if lacks := [name for name, path in found.items() if not path]:
        pytest.skip(f"{', '.join(lacks)} not installed (tools/install-deps browser)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,1000", f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(found["chromedriver"]), options=options)
    yield driver
    driver.quit()


def text_of(browser, what: str) -> str:
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", what)


def test_in_a_browser_it_loads_moves_and_switches(air_lab, browser):
    with air_lab.daemon(["offload"]) as daemon, dashboard(daemon) as (address, _):
        download = air_lab.start_download(seconds=60)
        download.wait_bytes(1_000_000)
        browser.get(address)
        assert system.wait_until(lambda: f"{air_lab.server('srv1').ipv4}:80" in text_of(browser, "flows"), 20), text_of(browser, "state")
        assert "token" not in browser.current_url
        assert len(browser.find_elements("css selector", "#charts canvas")) == 4

        legend = "return document.querySelector('[data-chart=goodput_mbps] h2 b')?.textContent ?? '-'"

        def painted() -> int:
            """Points of the goodput's canvas that are not empty."""
            return browser.execute_script("const c = document.querySelector('[data-chart=goodput_mbps] canvas');"
                                          "return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v).length")

        assert system.wait_until(lambda: browser.execute_script(legend) not in ("-", "0.00"), 10)
        before, first = painted(), browser.execute_script(legend)
        assert system.wait_until(lambda: painted() > before and browser.execute_script(legend) != first, 15), "the chart gets points"
        assert system.wait_until(lambda: "offload" in text_of(browser, "decided"), 10), text_of(browser, "decided")
        assert "wlan0" in text_of(browser, "links") and "Cellular data" in text_of(browser, "cellular")

        # Rows are made anew every second, so that a found element may be gone: the page itself presses.
        browser.execute_script("document.querySelector('.flow button').click()")
        assert system.wait_until(lambda: "open for" in text_of(browser, "flows") and "freeze off" in text_of(browser, "flows"), 10), text_of(browser, "flows")

        browser.find_element("css selector", "[data-module=offload]").click()
        assert system.wait_until(lambda: modules_on(daemon) == set(), 10)
        assert system.wait_until(lambda: browser.find_element("css selector", "[data-module=offload]").text == "off", 10)

        browser.refresh()  # the token is gone; the session goes on, with the last minute
        assert system.wait_until(lambda: browser.execute_script(legend) not in ("-", "0.00"), 10), text_of(browser, "state")
        assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]

        browser.set_window_size(500, 900)  # the narrowest window that Chromium makes
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True})
        time.sleep(1)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360

        browser.switch_to.new_window("tab")
        browser.get(address)  # used
        assert system.wait_until(lambda: "works once" in text_of(browser, "state"), 10), text_of(browser, "state")
        assert not browser.find_elements("css selector", "#charts canvas")
        download.stop()


def test_in_a_browser_what_was_is_not_said_to_be_now(air_lab, browser):
    with air_lab.daemon(["offload"]) as daemon, dashboard(daemon) as (address, process):
        browser.get(address)
        assert system.wait_until(lambda: "tandemd" in text_of(browser, "state"), 20), text_of(browser, "state")
        process.send_signal(signal.SIGINT)
        assert system.wait_until(lambda: "does not answer" in text_of(browser, "state"), 20), text_of(browser, "state")
        browser.execute_script("document.dispatchEvent(new Event('visibilitychange'))")  # as when the tab is shown again
        assert "does not answer" in text_of(browser, "state")


def test_a_page_of_another_origin_gets_nothing(air_lab, browser, tmp_path):
    """With the browser's session open: neither a script of another page nor a frame in it reads or switches."""
    with air_lab.daemon(["offload"]) as daemon, dashboard(daemon) as (address, _):
        browser.get(address)
        assert system.wait_until(lambda: "offload" in text_of(browser, "modules"), 20), text_of(browser, "state")
        base = browser.execute_script("return sessionStorage.getItem('tandem dashboard')")
        own = f"http://127.0.0.1:{urlsplit(address).port}"
        page = tmp_path / "evil.html"
        page.write_text("<!doctype html><title>elsewhere</title>")
        browser.get(page.as_uri())
        script = ("const done = arguments[arguments.length - 1];"
                  "fetch(arguments[0], {method: arguments[1], credentials: 'include', mode: arguments[2], body: arguments[1] === 'GET' ? undefined : '{\"enabled\": false}'})"
                  ".then(a => done(a.type + a.status), e => done('refused'))")
        assert browser.execute_async_script(script, own + base + "/modules/offload", "PUT", "cors") == "refused"
        assert browser.execute_async_script(script, own + base + "/recording", "GET", "cors") == "refused"
        browser.execute_async_script(script, own + base + "/modules/offload", "POST", "no-cors")
        assert modules_on(daemon) == {"offload"}
