"""Encodes the windows that owners of trees send, and decodes those of peers, which may hold anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import cbt
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Beside
from agent.runtime.messages.jobs import Snapshot
from agent.runtime.model.fields import WireOldWindow, WireWindow
from agent.runtime.reduce.owner import OwnedWindow
from agent.runtime.reduce.parts import FRAME_BYTES_MAX


def encoded_windows(windows: Iterable[OwnedWindow]) -> list[WireWindow]:
    """The windows as they travel. O(bytes)."""
    return [(one.start_ms, one.size_ms, cbt.encode_frame(one.state)) for one in windows]


def encoded_old(windows: Iterable[OwnedWindow]) -> list[WireOldWindow]:
    """Windows of older versions as they travel. O(bytes)."""
    return [(one.version or 0, one.start_ms, one.size_ms, cbt.encode_frame(one.state)) for one in windows]


def decoded_windows(message: Snapshot, function: JobFunction) -> list[OwnedWindow] | None:
    """The windows in a message, by their ends and lengths, each once; None if an honest owner could not have made them.
    Answers have those that end with their panes, and what is given to another owner has those that are open after
    them."""
    windows = []
    for start_ms, size_ms, encoded in message.windows:
        window = _decoded(start_ms, size_ms, encoded, function)
        if window is None or window.at <= message.after or (window.at > message.upto and message.stage != "given"):
            return None
        windows.append(window)
    if len({(one.at, one.size_ms) for one in windows}) < len(windows):
        return None
    return sorted(windows, key=lambda one: (one.at, one.size_ms))


def decoded_old(message: Snapshot, after: int, beside: Sequence[Beside]) -> list[OwnedWindow] | None:
    """The windows of older versions that end with the panes of a decision, which begin after `after`; None if an honest
    owner could not have made them."""
    olds, windows = {one.number: one for one in beside}, []
    for number, start_ms, size_ms, encoded in message.old_windows:
        if (old := olds.get(number)) is None:
            return None
        window = _decoded(start_ms, size_ms, encoded, old.old.function)
        if window is None or not old.frontier(after) < window.at <= old.frontier(message.upto):
            return None
        windows.append(window._replace(version=number))
    return windows if len({(one.version, one.at, one.size_ms) for one in windows}) == len(windows) else None


def _decoded(start_ms: int, size_ms: int, encoded: bytes, function: JobFunction) -> OwnedWindow | None:
    """A window of a function; None if it can be none."""
    windowing = function.plan.windowing
    sizes = {} if windowing is None else {one.size_ms: one.slide_ms for one in windowing.sizes}
    if windowing is None or size_ms not in sizes or start_ms % sizes[size_ms]:
        return None
    try:
        state = cbt.decode_frame(encoded, function.state_schema, bytes_max=FRAME_BYTES_MAX)
    except cbt.FrameError:
        return None
    if not (state["pane"] == start_ms).all() or not function.is_within_limit(state):
        return None
    return OwnedWindow(start_ms + size_ms - windowing.pane_ms, start_ms, size_ms, state)
