"""Frames between agent and program: however they are cut, however wrong they are."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.programs.agent_pipe import AgentPipe
from agent.programs.commands import ProgramLimits
from agent.programs.frames import Frames, FrameTooLargeError, framed, read_terms, terms


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_whole_and_in_order_however_they_are_cut(sent: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(map(framed, sent))
    frames, found = Frames(50), []
    place = turn = 0
    while place < len(stream):
        size = sizes[turn % len(sizes)]
        found += frames.add(stream[place : place + size])
        place, turn = place + size, turn + 1
    assert found == sent


@given(st.lists(st.binary(max_size=200)))
def test_any_bytes_are_frames_or_too_large_and_nothing_grows(pieces: list[bytes]) -> None:
    frames = Frames(100)
    with suppress(FrameTooLargeError):
        for piece in pieces:
            for frame in frames.add(piece):
                assert len(frame) <= 100
            assert len(frames._buffer) <= 104


def test_a_length_is_refused_as_soon_as_it_is_seen() -> None:
    frames = Frames(100)
    assert frames.add(b"\0\0\0") == []
    with pytest.raises(FrameTooLargeError, match="said 101 bytes at once: at most 100 are taken"):
        frames.add(b"\x65")


def test_terms_are_the_same_on_both_sides() -> None:
    limits = ProgramLimits(call_s=0.25, memory_bytes=12345, nice=0)
    assert read_terms(terms(4711, limits)) == (4711, limits)


def test_a_wire_carries_frames_larger_than_a_pipe() -> None:
    to_agent, to_program = os.pipe(), os.pipe()
    program = AgentPipe(to_program[0], to_agent[1], 1 << 20)
    agent = AgentPipe(to_agent[0], to_program[1], 1 << 20)
    data = os.urandom(1 << 20)
    writing = threading.Thread(target=program.write, args=(data,))
    writing.start()
    assert agent.read() == data
    writing.join()
    agent.done()
    assert program.read() == b""
    os.close(to_program[1])
    with pytest.raises(EOFError, match="the agent has gone"):
        program.read()
    for descriptor in (to_agent[0], to_agent[1], to_program[0]):
        os.close(descriptor)


@pytest.mark.parametrize(("data", "fault"), [(b"", "is done"), (bytes(11), "11 bytes at once: at most 10 are taken")])
def test_a_wire_takes_no_frame_that_the_agent_would_not(data: bytes, fault: str) -> None:
    reading, writing = os.pipe()
    with pytest.raises(ValueError, match=fault):
        AgentPipe(reading, writing, 10).write(data)
    os.close(reading)
    os.close(writing)
