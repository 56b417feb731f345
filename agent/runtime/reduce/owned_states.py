"""Encodes the windows that owners of trees send, and decodes those of peers, which may hold anything."""

from __future__ import annotations

from collections.abc import Iterable

import cbt
from agent.runtime.function.job_function import JobFunction
from agent.runtime.messages.jobs import Snapshot, WireWindow
from agent.runtime.reduce.owner import OwnedWindow
from agent.runtime.reduce.parts import FRAME_BYTES_MAX


def encoded_windows(windows: Iterable[OwnedWindow]) -> list[WireWindow]:
    """The windows as they travel. O(bytes)."""
    return [(one.start_ms, one.size_ms, cbt.encode_frame(one.state)) for one in windows]


def decoded_windows(message: Snapshot, function: JobFunction) -> list[OwnedWindow] | None:
    """The windows in a message, by their ends and lengths; None if an honest owner could not have made them. Answers
    have those that end with their panes, and what is given to another owner has those that are open after them."""
    windowing = function.plan.windowing
    assert windowing is not None
    sizes = {one.size_ms: one.slide_ms for one in windowing.sizes}
    windows = []
    for start_ms, size_ms, encoded in message.windows:
        at = start_ms + size_ms - windowing.pane_ms
        is_window = size_ms in sizes and start_ms % sizes[size_ms] == 0
        is_in_time = message.after < at and (at <= message.upto or message.stage == "given")
        if not is_window or not is_in_time:
            return None
        try:
            state = cbt.decode_frame(encoded, function.state_schema, bytes_max=FRAME_BYTES_MAX)
        except cbt.FrameError:
            return None
        if not (state["pane"] == start_ms).all() or not function.is_within_limit(state):
            return None
        windows.append(OwnedWindow(at, start_ms, size_ms, state))
    return sorted(windows, key=lambda one: (one.at, one.size_ms))
