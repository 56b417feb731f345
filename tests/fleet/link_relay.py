"""A relay before an agent: links that others open to it take longer, by as much as a test says, in both directions."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

PIECE_BYTES = 1 << 16
CONNECT_S = 10.0


class LinkRelay:
    """`with LinkRelay(port) as relay:` passes connections to `relay.address` on to the port that `port` tells, and each
    piece that is read `relay.delay_s` later."""

    def __init__(self, port: Callable[[], int]) -> None:
        self.delay_s = 0.0
        self._port = port
        self._stack = ExitStack()
        self._threads: list[threading.Thread] = []
        self._server = socket.create_server(("127.0.0.1", 0))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._stack.enter_context(self._server)
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._stack.close()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="link relay")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # of the socket that is closed at the end
            while True:
                near, _ = self._server.accept()
                self._stack.callback(_close, near)
                try:
                    far = socket.create_connection(("127.0.0.1", self._port()), CONNECT_S)
                except OSError:
                    _close(near)
                    continue
                far.settimeout(None)
                self._stack.callback(_close, far)
                for one, other in ((near, far), (far, near)):
                    pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    self._start(self._read, one, pieces)
                    self._start(_write, other, pieces)

    def _read(self, source: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                pieces.put((time.monotonic() + self.delay_s, piece))
        pieces.put((0.0, b""))


def _write(target: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    with suppress(OSError):
        while True:
            due, piece = pieces.get()
            if not piece:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            target.sendall(piece)
    _close(target)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
