"""Runs a web server of the demo as a process: its socket, its journal, its end.

It listens on a free port of 127.0.0.1, prints `{"name": "shop-0", "port": 40123}` once it is ready, and ends, with
every answered request in its logs, at SIGTERM or SIGINT or when its standard input ends: the starter holds the other
end of that pipe, so no server outlives it.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from elf.demo.shop.journal import Journal

_CONNECTIONS_MAX = 128
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of a server. `worker`: a number that no other server has."""

    name: str
    directory: Path
    worker: int
    shown: Path | None


class BoundedServer(ThreadingHTTPServer):
    """The listening socket; a thread per connection, of which there are few."""

    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._slots = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the signature is given
        error = sys.exception()
        if not isinstance(error, OSError):  # a client that went away is no news
            print(f"request failed: {error!r}", file=sys.stderr, flush=True)


Maker = Callable[[Options, Journal], BoundedServer]


def run_server(module: str, make: Maker, arguments: Sequence[str] | None = None) -> int:
    """The command line `python -m MODULE --name shop-0 --directory DIR`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description="One web server of the demo. It ends with SIGTERM, Ctrl-C or the end of its input.",
    )
    parser.add_argument("--name", required=True, help="the server's name, such as shop-0")
    parser.add_argument("--directory", required=True, type=Path, help="where its two logs go")
    parser.add_argument("--worker", type=int, default=0, help="a number no other server has, for event ids")
    parser.add_argument("--shown", type=Path, help="where the agent beside it puts what jobs show")
    options = Options(**vars(parser.parse_args(arguments)))
    try:
        _serve(options, make)
    except (OSError, ValueError) as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1
    return 0


def _serve(options: Options, make: Maker) -> None:
    """Runs until it is told to stop. Must run in the process's main thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)  # before any thread: all of them inherit it
    failed: list[OSError] = []

    def fail(error: OSError) -> None:
        failed.append(error)
        _stop()

    options.directory.mkdir(parents=True, exist_ok=True)
    journal = Journal(options.directory, fail)
    with make(options, journal) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        print(json.dumps({"name": options.name, "port": server.server_port}), flush=True)
        signal.sigwait(_STOP_SIGNALS)
        server.shutdown()
        journal.close()
    if failed:
        raise failed[0]


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _stop_with_parent() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    _stop()
