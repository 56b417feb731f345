"""Real nginx processes with logs of their own, rotated as logrotate does it, and a client that counts what it sends."""

from __future__ import annotations

import grp
import gzip
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAM = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
LOGS = ("access.log", "events.log")
DEADLINE_S = 120.0
PACE_S = 0.002
_CONFIG = """
user {user} {group};
daemon off;
worker_processes 2;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 64; }}
http {{
    large_client_header_buffers 4 8k;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    log_format events escape=json '{{"time":"$time_iso8601","msec":$msec,"status":$status,'
        '"target":"$request_uri","agent":"$http_user_agent","bytes":$body_bytes_sent}}';
    access_log access.log combined;
    access_log events.log events;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "here\\n"; }}
        location /missing {{ return 404 "not here\\n"; }}
        location /broken {{ return 503 "later\\n"; }}
    }}
}}
"""


class Nginx:
    """`with Nginx(folder, port) as server:` runs one, master and workers, in `folder`."""

    def __init__(self, folder: Path, port: int, *, time_zone: str = "UTC") -> None:
        self.folder = folder
        self.port = port
        folder.mkdir(parents=True)
        user = pwd.getpwuid(os.geteuid()).pw_name
        group = grp.getgrgid(os.getegid()).gr_name
        (folder / "nginx.conf").write_text(_CONFIG.format(user=user, group=group, port=port))
        self._environment = {**os.environ, "TZ": time_zone}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command(), env=self._environment, stderr=subprocess.DEVNULL)
        try:
            wait_until(self._answers, "an answer of nginx")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def log(self, name: str) -> Path:
        return self.folder / name

    def kept(self, name: str) -> list[Path]:
        """A log and all its predecessors."""
        return sorted(self.folder.glob(f"{name}*"))

    def rotate(self, *, by_command: bool) -> None:
        """Renames the logs and has nginx reopen them, as logrotate with `delaycompress`."""
        for name in LOGS:
            self._make_room(name)
            self.log(name).rename(self.log(f"{name}.1"))
        if by_command:
            subprocess.run([*self._command(), "-s", "reopen"], check=True, stderr=subprocess.DEVNULL)
        else:
            os.kill(int((self.folder / "nginx.pid").read_text()), signal.SIGUSR1)
        wait_until(lambda: all(self.log(name).exists() for name in LOGS), "logs that are opened anew")

    def _make_room(self, name: str) -> None:
        """Numbers go up by one; what becomes number two is compressed."""
        count = len(self.kept(name))
        for number in range(count - 1, 1, -1):
            self.log(f"{name}.{number}.gz").rename(self.log(f"{name}.{number + 1}.gz"))
        first = self.log(f"{name}.1")
        if first.exists():
            unfinished = self.folder / f"compressing-{name}"
            unfinished.write_bytes(gzip.compress(first.read_bytes(), 1))
            unfinished.rename(self.log(f"{name}.2.gz"))
            first.unlink()

    def _command(self) -> list[str]:
        assert PROGRAM is not None
        return [PROGRAM, "-p", f"{self.folder}/", "-c", "nginx.conf", "-e", "error.log"]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log("error.log").read_text(errors="replace")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _end(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


Seen = tuple[str | None, str | None]
"""What is logged of a request: its path or target, and its user agent."""


@dataclass(frozen=True)
class Kind:
    """A kind of request, the status of its answer, and how it shows in either log."""

    request: bytes
    status: int
    combined: Seen
    event: Seen


def kind(target: bytes, status: int, combined: Seen, event: Seen, *, agent: bytes = b"test/1") -> Kind:
    return Kind(b"GET %b HTTP/1.1\r\nHost: x\r\nUser-Agent: %b\r\n\r\n" % (target, agent), status, combined, event)


class Client:
    """Sends requests to one server, each answered before the next; `sent` says how many of which kind."""

    def __init__(self, port: int) -> None:
        self.sent: Counter[Kind] = Counter()
        self.error: BaseException | None = None
        self._port = port
        self._socket: socket.socket | None = None

    def send(self, kind: Kind) -> None:
        """One request and its answer; AssertionError if that has another status than its kind."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=DEADLINE_S)
        self._socket.sendall(kind.request)
        with HTTPResponse(self._socket) as response:
            response.begin()
            response.read()
            assert response.status == kind.status, (kind, response.status)
            self.sent[kind] += 1
            if response.will_close:
                self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def run(self, kinds: Sequence[Kind], seed: int, stop: threading.Event) -> None:
        """Sends all kinds once, then any of them, until told to stop."""
        chance = random.Random(seed)
        try:
            for one in kinds:
                self.send(one)
            while not stop.wait(PACE_S):
                self.send(chance.choice(kinds))
        except BaseException as error:
            self.error = error
        finally:
            self.close()


class Load:
    """`with Load(servers, kinds) as load:` has a client of each server send all the time."""

    def __init__(self, servers: Sequence[Nginx], kinds: Sequence[Kind]) -> None:
        self.clients = [Client(server.port) for server in servers]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=client.run, args=(kinds, seed, self._stop), name=f"client {seed}")
            for seed, client in enumerate(self.clients)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, requests: int) -> None:
        """Returns when every client has sent that many more."""
        goals = [client.sent.total() + requests for client in self.clients]
        wait_until(lambda: self._have_reached(goals), f"{requests} more requests")

    def _have_reached(self, goals: Sequence[int]) -> bool:
        for client in self.clients:
            assert client.error is None, repr(client.error)
        return all(client.sent.total() >= goal for client, goal in zip(self.clients, goals, strict=True))


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.01)
