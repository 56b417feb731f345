"""Clients of a real agent: other users of its machine over the socket, and creators over TLS."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.control.messages import Answer, Request
from elf.client.remote_agent import RemoteAgent, dial_remote

DEADLINE_S = 60.0
_ANSWER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


class ClientConnection:
    """One request and its answers, line by line; the connection stays until `close`."""

    def __init__(self, send: Callable[[bytes], object], receive: Callable[[int], bytes], close: Callable[[], None]):
        self._send, self._receive, self.close = send, receive, close
        self._read = b""

    def ask(self, request: Request) -> Answer:
        """Sends a request; returns the first answer."""
        self._send(msgspec.json.encode(request) + b"\n")
        return self.next_answer()

    def next_answer(self) -> Answer:
        while b"\n" not in self._read:
            piece = self._receive(1 << 16)
            assert piece, "the agent closed the connection"
            self._read += piece
        line, self._read = self._read.split(b"\n", 1)
        return _ANSWER.decode(line)


@dataclass(frozen=True)
class SocketUser:
    """A user of the agent's machine, by numbers."""

    path: Path
    uid: int
    gid: int

    def connect(self) -> ClientConnection:
        """Connects as this user: the kernel notes who it is, and the test goes on with the connection."""
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        child = os.fork()
        if not child:
            try:
                os.setgroups([self.gid])
                os.setresgid(self.gid, self.gid, self.gid)
                os.setresuid(self.uid, self.uid, self.uid)
                agent = socket.socket(socket.AF_UNIX)
                agent.connect(str(self.path))
                socket.send_fds(theirs, [b"x"], [agent.fileno()])
            finally:
                os._exit(0)
        theirs.close()
        with ours:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(child, 0)
        assert descriptors, f"user {self.uid} cannot connect"
        agent = socket.socket(fileno=descriptors[0])
        agent.settimeout(DEADLINE_S)
        return ClientConnection(agent.sendall, agent.recv, agent.close)


@dataclass(frozen=True)
class RemoteCreator:
    """The holder of a creator's folder, elsewhere."""

    address: str
    folder: Path

    def connect(self) -> ClientConnection:
        agent = dial_remote(RemoteAgent(self.address, self.folder), time.monotonic() + DEADLINE_S)
        agent.settimeout(DEADLINE_S)
        return ClientConnection(agent.sendall, agent.recv, agent.close)


Asker = SocketUser | RemoteCreator


def answer_to(asker: Asker, request: Request) -> Answer:
    """The first answer to a request, after which the client hangs up."""
    connection = asker.connect()
    try:
        return connection.ask(request)
    finally:
        connection.close()
