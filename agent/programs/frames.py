"""Frames on the pipes between agent and program: four bytes of length, big-endian, then the payload.

The first frame gives the program its limits. A frame of length 0 from the program ends one call; its start counts as
the first call.
"""

from __future__ import annotations

import struct

from agent.programs.commands import ProgramLimits

HEADER = struct.Struct(">I")
TERMS_BYTES_MAX = 1024
EXIT_EXCEPTION, EXIT_MEMORY, EXIT_UNCONTAINED = 70, 71, 78
"""Exit codes of a program after an exception, without memory, and without confinement."""


class FrameTooLargeError(Exception):
    """One line for people."""


def framed(data: bytes) -> bytes:
    return HEADER.pack(len(data)) + data


def terms(agent_pid: int, limits: ProgramLimits) -> bytes:
    """The first frame: the agent's process, and the program's limits."""
    return f"{agent_pid} {limits.to_text()}".encode()


def read_terms(data: bytes) -> tuple[int, ProgramLimits]:
    """The inverse of `terms`."""
    pid, text = data.decode().split(" ", 1)
    return int(pid), ProgramLimits.from_text(text)


class Frames:
    """Assembles frames from pieces of a stream. Holds at most one frame and one piece."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._max = frame_bytes_max
        self._buffer = bytearray()

    def add(self, piece: bytes) -> list[bytes]:
        """The frames that are complete with this piece. FrameTooLargeError as soon as a length is too large."""
        self._buffer += piece
        found = []
        start = 0
        with memoryview(self._buffer) as view:
            while len(view) - start >= HEADER.size:
                (size,) = HEADER.unpack_from(view, start)
                if size > self._max:
                    raise FrameTooLargeError(f"said {size:,} bytes at once: at most {self._max:,} are taken")
                end = start + HEADER.size + size
                if len(view) < end:
                    break
                found.append(bytes(view[start + HEADER.size : end]))
                start = end
        del self._buffer[:start]
        return found
