"""The program's end of the pipes to its agent. Blocking: a program does one thing at a time."""

from __future__ import annotations

import os

from agent.programs.frames import HEADER, framed

PIECE_BYTES = 1 << 16


class AgentPipe:
    """Frames from and to the agent, over two file descriptors that are the wire's own from now on."""

    def __init__(self, read_fd: int, write_fd: int, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._read_fd = read_fd
        self._write_fd = write_fd

    def read(self) -> bytes:
        """The next frame, waiting for it. EOFError when the agent has gone."""
        (size,) = HEADER.unpack(self._exactly(HEADER.size))
        if size > self.frame_bytes_max:
            raise ValueError(f"a frame of {size:,} bytes: at most {self.frame_bytes_max:,} are taken")
        return self._exactly(size)

    def write(self, data: bytes) -> None:
        """Says something to the agent. ValueError if it is empty or too large, OSError when the agent has gone."""
        if not data:
            raise ValueError("an empty frame would say that the call is done")
        if len(data) > self.frame_bytes_max:
            raise ValueError(f"{len(data):,} bytes at once: at most {self.frame_bytes_max:,} are taken")
        self._send(framed(data))

    def done(self) -> None:
        """Says that a call is done. For `serve` alone."""
        self._send(framed(b""))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._read_fd, min(size - len(data), PIECE_BYTES))
            if not piece:
                raise EOFError("the agent has gone")
            data += piece
        return bytes(data)

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._write_fd, rest) :]
