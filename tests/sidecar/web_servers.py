"""Web servers under traffic, and what their own access logs say the fleet has to answer."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from machines import Machine, wait_until

LOG = "/var/log/nginx/access.log"
CONFIGURATION = "/etc/elf/agent.toml"
ENROLMENT_PORT = 7699
QUERY = "SELECT status, COUNT(*) AS hits FROM web GROUP BY status WINDOWING 3 SECONDS GRACE 10 SECONDS"
HOSTILE_AGENT = 'hostile "\\x1b[31m agent'
TRAFFIC = f"""\
import http.client, random, time
paths = ["/", "/", "/", "/missing", "/a'b", '/%22x']
while True:
    connection = http.client.HTTPConnection("127.0.0.1", 80)
    for _ in range(50):
        connection.request("GET", random.choice(paths), headers={{"User-Agent": {HOSTILE_AGENT!r}}})
        connection.getresponse().read()
        time.sleep(0.02)
    connection.close()
"""
Window = dict[str, Any]


class WebServers:
    """Machines with nginx; the first has the fleet's authority."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = machines
        self.first = machines[0]

    def make_fleet(self, seeds: int = 1) -> None:
        """Enrols all by tokens of an authority on the first, and starts their agents: the package is installed.

        Each has that many of the first machines as seeds: the first alone is then without any.
        """
        web = self.first
        web.run("elf", "ca", "init", "/srv/web-ca", "--fleet", "web", "--no-password")
        with web.running("elf", "ca", "serve", "/srv/web-ca", "--listen", web.address):
            wait_until(lambda: _listens(web.address, ENROLMENT_PORT), "the authority admits agents")
            for machine in self.machines:
                token = web.output("elf", "ca", "token", "/srv/web-ca")
                machine.run("elf", "agent", "enroll", f"{token}@{web.address}")
        for machine in self.machines:
            named = [] if seeds == 1 and machine is web else self.machines[:seeds]
            options = [word for one in named for word in ("--seed", f"{one.address}:7700")]
            machine.run("elf", "init", "--force", "--listen", f"{machine.address}:7700", *options)
            assert machine.output("elf", "config", "check", CONFIGURATION) == "ok"
            machine.run("systemctl", "enable", "--now", "elf-agent")
            assert is_active(machine)
        wait_until(lambda: len(web.status()["leaf_set"]) == len(self.machines) - 1, "agents that know each other")

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Clients that ask every server some 45 times a second."""
        with ExitStack() as stack:
            for machine in self.machines:
                stack.enter_context(machine.running("python3", "-c", TRAFFIC, stderr=subprocess.DEVNULL))
            yield

    def truth(self, window: Window) -> Counter[int]:
        """Requests by status in a window, as the servers have logged them."""
        begin, end = (datetime.fromisoformat(window[key]) for key in ("window_start", "window_end"))
        seconds = [begin + timedelta(seconds=second) for second in range(round((end - begin).total_seconds()))]
        times = b"|".join(f"{second:%d/%b/%Y:%H:%M:%S}".encode() for second in seconds)
        line = re.compile(rb'^\S+ - \S+ \[(?:%b) [^]]+\] "[^"]*" (\d{3}) ' % times, re.MULTILINE)
        found: Counter[int] = Counter()
        for machine in self.machines:
            found.update(map(int, line.findall(machine.path(LOG).read_bytes())))
        return found


class LiveQuery:
    """`with LiveQuery(machine, text) as query:` runs `elf query` in a machine, and collects its windows."""

    def __init__(self, machine: Machine, text: str, *options: str) -> None:
        self._machine = machine
        self._command = ("elf", "query", text, "--output", "json", *options)
        self._stack = ExitStack()

    def __enter__(self) -> LiveQuery:
        self._out, self._err = (self._stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))  # noqa: SIM115
        self._stack.enter_context(self._machine.running(*self._command, stdout=self._out, stderr=self._err))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def windows(self) -> list[Window]:
        """All windows so far."""
        return [json.loads(line) for line in _whole(self._out).splitlines()]

    def wait_for(self, count: int, timeout_s: float = 90.0) -> list[Window]:
        """All windows, once there are that many more."""
        goal = len(self.windows) + count
        try:
            wait_until(lambda: len(self.windows) >= goal, f"{count} more windows", timeout_s)
        except AssertionError as error:
            error.add_note(_whole(self._err).decode())
            raise
        return self.windows


def install(machine: Machine, package: Path) -> str:
    """Installs a package as apt would once it has the file; returns what was said."""
    shutil.copy(package, machine.path(f"/srv/{package.name}"))
    return machine.run("dpkg", "--force-unsafe-io", "--install", f"/srv/{package.name}").stdout


def is_active(machine: Machine) -> bool:
    return machine.unit("ActiveState") == "active"


def rows(window: Window) -> Counter[int]:
    """The rows of a window that groups by status."""
    return Counter({row["status"]: row["hits"] for row in window["rows"]})


def follow_each_other(windows: Sequence[Window]) -> bool:
    """Whether no window is missing between two others, and none is there twice."""
    return all(one["window_end"] == next_one["window_start"] for one, next_one in pairwise(windows))


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def _whole(file: Any) -> bytes:
    """The whole lines of a file that another process writes."""
    content = Path(f"/proc/self/fd/{file.fileno()}").read_bytes()
    return content[: content.rfind(b"\n") + 1]
