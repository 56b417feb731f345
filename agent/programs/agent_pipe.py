"""The program's end of the pipes to its agent. Calls block: a program does one thing at a time."""

from __future__ import annotations

import os

from agent.programs.frames import HEADER, framed

PIECE_BYTES = 1 << 16


class AgentPipe:
    """Reads and writes frames over two file descriptors, which it owns."""

    def __init__(self, read_fd: int, write_fd: int, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._read_fd = read_fd
        self._write_fd = write_fd

    def read(self) -> bytes:
        """Waits for the next frame. EOFError when the agent is gone."""
        (size,) = HEADER.unpack(self._exactly(HEADER.size))
        if size > self.frame_bytes_max:
            raise ValueError(f"a frame of {size:,} bytes: at most {self.frame_bytes_max:,} are taken")
        return self._exactly(size)

    def write(self, data: bytes) -> None:
        """Sends a frame to the agent. ValueError if it is empty or too large, OSError when the agent is gone."""
        if not data:
            raise ValueError("an empty frame would say that the call is done")
        if len(data) > self.frame_bytes_max:
            raise ValueError(f"{len(data):,} bytes at once: at most {self.frame_bytes_max:,} are taken")
        self._send(framed(data))

    def done(self) -> None:
        """Tells the agent that a call is done. Only `serve` calls it."""
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
