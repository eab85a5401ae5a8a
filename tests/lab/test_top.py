"""`tandem top` on a terminal of its own and `tandem why`, beside a download: what they show is what the daemon does, and a key switches."""

from __future__ import annotations

import os
import pty
import select
import time

from tandem_lab import system

SCREEN_ON, SCREEN_OFF = b"\x1b[?1049h", b"\x1b[?1049l"


def command(daemon, *words: str) -> list[str]:
    return [str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), *words]


class Terminal:
    """A program on a pseudo-terminal, and what it has written."""

    def __init__(self, argv: list[str]):
        self.text = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(argv[0], argv)

    def until(self, words: bytes, seconds: float = 15.0) -> None:
        """Reads until the words come, behind those waited for before."""
        start, end = len(self.text), time.monotonic() + seconds
        while words not in self.text[start:]:
            assert time.monotonic() < end, f"{words!r} did not come: {self.text[start:][-2000:]!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._master, 65536)
                except OSError:  # the program has ended
                    assert words in self.text[start:], self.text[start:][-2000:]

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def end(self) -> int:
        """Its exit code, after all of its words."""
        try:
            while data := os.read(self._master, 65536):
                self.text += data
        except OSError:
            pass
        os.close(self._master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_top_shows_the_download_and_its_keys_switch_modules(air_lab):
    with air_lab.daemon(["offload", "mirror"]) as daemon:
        download = air_lab.start_download(seconds=20)
        download.wait_bytes(2_000_000)
        numbers = {entry["name"]: str(number) for number, entry in enumerate(daemon.api("/v1/modules"), 1)}
        terminal = Terminal(command(daemon, "top"))
        terminal.until(f"{air_lab.server('srv1').ipv4}:80".encode())
        terminal.press(numbers["mirror"])
        terminal.until(b"mirror is off now")
        assert {entry["name"]: entry["enabled"] for entry in daemon.api("/v1/modules")}["mirror"] is False
        terminal.press(numbers["mirror"])
        terminal.until(b"mirror is on now")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.text.count(SCREEN_ON) == 1 and terminal.text.rstrip().endswith(SCREEN_OFF)
        assert {entry["name"]: entry["enabled"] for entry in daemon.api("/v1/modules")}["mirror"] is True

        said = air_lab.client.run(command(daemon, "why", air_lab.server("srv1").ipv4)).stdout
        assert f"{air_lab.server('srv1').ipv4}:80 from " in said and "\n  offload " in said and "\n  mirror " in said
        missing = air_lab.client.run(command(daemon, "why", "192.0.2.77"), check=False)
        assert missing.returncode == 1 and "no connection to 192.0.2.77" in missing.stderr
        download.stop()


def test_top_without_a_terminal_says_what_to_use_instead(air_lab):
    with air_lab.daemon(["offload"]) as daemon:
        done = air_lab.client.run(command(daemon, "top"), check=False)
        assert done.returncode == 2 and "tandem status --json" in done.stderr


def test_a_terminal_that_is_interrupted_is_left_as_it_was(air_lab):
    with air_lab.daemon(["offload"]) as daemon:
        terminal = Terminal(command(daemon, "top"))
        terminal.until(b"offload")
        terminal.press("\x03")
        assert terminal.end() == 0
        assert terminal.text.rstrip().endswith(SCREEN_OFF)
