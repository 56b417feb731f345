"""Sessions merged in any grouping and order equal the sessions of all events at once, and are cut alike."""

from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbt.layout.layout
from cbt import Aggregate, Key
from cbt.windows import OpenSessions, SessionLayout

PANE_MS = 20
KEYS = [Key("user", "string"), Key("device", "any")]
AGGREGATES = [
    Aggregate("n", "count", None, "any"),
    Aggregate("total", "sum", "x", "integer"),
    Aggregate("top", "max", "x", "integer"),
]
SCHEMA = {"time": pl.Int64, "user": pl.String, "device": pl.Int64, "x": pl.Int64}

Event = tuple[int, str | None, int | None, int]
Session = tuple[int, int, str | None, str | None, int, int, int]


def layout(gap_ms: int = 7, max_panes: int = 2) -> SessionLayout:
    return SessionLayout(KEYS, AGGREGATES, gap_ms=gap_ms, max_ms=max_panes * PANE_MS, pane_ms=PANE_MS)


LAYOUTS = st.builds(layout, st.integers(1, 45), st.integers(1, 4))
EVENTS = st.lists(
    st.tuples(
        st.integers(-90, 150) | st.sampled_from([-20, -1, 0, 19, 20, 39, 40]),
        st.sampled_from([None, "", "ada"]),
        st.sampled_from([None, 1]),
        st.integers(-5, 5),
    ),
    max_size=30,
)


def lift(sessions: SessionLayout, events: list[Event]) -> pl.DataFrame:
    return sessions.lift(pl.DataFrame(events, schema=SCHEMA, orient="row"))


def model(sessions: SessionLayout, events: list[Event]) -> tuple[list[Session], int]:
    """The sessions by walking over each key's events, and how many of them were cut."""
    found: list[Session] = []
    cut = 0
    for user, device in {(user, device) for _, user, device, _ in events}:
        run_start = end_of_part = last = 0
        parts: list[list[tuple[int, int]]] = []
        for time, x in sorted((time, x) for time, u, d, x in events if (u, d) == (user, device)):
            fresh = not parts or time > last + sessions.gap_ms
            if fresh:
                run_start = time // PANE_MS * PANE_MS
            if fresh or time >= end_of_part:
                cut += not fresh
                end_of_part = run_start + ((time - run_start) // sessions.max_ms + 1) * sessions.max_ms
                parts.append([])
            parts[-1].append((time, x))
            last = time
        for part in parts:
            values = [x for _, x in part]
            key = (user, None if device is None else str(device))
            found.append((part[0][0], part[-1][0], *key, len(part), sum(values), max(values)))
    return sorted(found, key=repr), cut


def rows(sessions: SessionLayout, frame: pl.DataFrame) -> list[Session]:
    assert frame.schema == sessions.schema
    return sorted(sessions.lower(frame).rows(), key=repr)


@given(sessions=LAYOUTS, dealt=st.lists(EVENTS, min_size=1, max_size=4), order=st.randoms())
def test_pieces_do_not_depend_on_grouping_and_order(
    sessions: SessionLayout, dealt: list[list[Event]], order: Random
) -> None:
    at_once = lift(sessions, [event for events in dealt for event in events])
    frames = [lift(sessions, events) for events in dealt]
    while len(frames) > 1:
        order.shuffle(frames)
        frames.append(sessions.combine([frames.pop(), frames.pop()]))
    assert frames[0].equals(at_once, null_equal=True)
    assert sessions.combine([at_once]).equals(at_once, null_equal=True)
    assert at_once.select(pl.col("session.end") < pl.col("pane") + PANE_MS).to_series().all()


@given(sessions=LAYOUTS, events=EVENTS)
def test_sessions_pane_by_pane_equal_those_of_all_events_at_once(sessions: SessionLayout, events: list[Event]) -> None:
    expected, expected_cut = model(sessions, events)
    growing = OpenSessions(sessions)
    found, cut = [], 0
    for pane in range(-100, 160, PANE_MS):
        of_pane = [event for event in events if pane <= event[0] < pane + PANE_MS]
        closed = growing.add(lift(sessions, of_pane), complete_ms=pane + PANE_MS)
        found += rows(sessions, closed.frame)
        cut += closed.cut
        over = [session for session in expected if session[1] + sessions.gap_ms < pane + PANE_MS]
        assert set(over) <= set(found), "a session is closed as soon as no event can join it"
    closed = growing.end()
    found += rows(sessions, closed.frame)
    assert sorted(found, key=repr) == expected
    assert cut + closed.cut == expected_cut
    assert len(growing) == 0
    assert all(end - start < sessions.max_ms for start, end, *_ in found)


@given(sessions=LAYOUTS, events=EVENTS)
def test_panes_may_come_together(sessions: SessionLayout, events: list[Event]) -> None:
    growing = OpenSessions(sessions)
    closed, last = growing.add(lift(sessions, events), complete_ms=0), growing.end()
    found = rows(sessions, closed.frame) + rows(sessions, last.frame)
    assert (sorted(found, key=repr), closed.cut + last.cut) == model(sessions, events)


def times(sessions: SessionLayout, frame: pl.DataFrame) -> list[tuple[int, int, int]]:
    return sorted(sessions.lower(frame).select("session.start", "session.end", "n").rows())


def test_a_gap_is_more_than_the_gap() -> None:
    sessions = layout(gap_ms=7)
    pieces = lift(sessions, [(time, "ada", None, 1) for time in (0, 7, 15)])
    assert times(sessions, OpenSessions(sessions).add(pieces, complete_ms=100).frame) == [(0, 7, 2), (15, 15, 1)]


def test_a_session_is_open_while_an_event_may_join_it() -> None:
    sessions = layout(gap_ms=20)
    growing = OpenSessions(sessions)
    assert growing.add(lift(sessions, [(0, "ada", None, 1)]), complete_ms=20).frame.is_empty()
    assert len(growing) == 1
    assert growing.memory_bytes > 0
    closed = growing.add(lift(sessions, [(20, "ada", None, 1)]), complete_ms=40)
    assert closed.frame.is_empty()
    assert times(sessions, growing.add(sessions.empty(), complete_ms=60).frame) == [(0, 20, 2)]


def test_an_endless_session_is_cut_at_the_maximum_from_its_pane_on() -> None:
    sessions = layout(gap_ms=7, max_panes=2)
    growing, found, cut = OpenSessions(sessions), [], 0
    for pane in range(0, 200, PANE_MS):
        pieces = lift(sessions, [(time, "ada", None, 1) for time in range(max(pane, 15), pane + PANE_MS, 5)])
        closed = growing.add(pieces, complete_ms=pane + PANE_MS)
        found += times(sessions, closed.frame)
        cut += closed.cut
        assert len(growing) <= 1
    assert found == [(15, 35, 5), (40, 75, 8), (80, 115, 8), (120, 155, 8)]
    assert cut == 4


def test_late_pieces_join_what_is_open() -> None:
    sessions = layout(gap_ms=7)
    growing = OpenSessions(sessions)
    growing.add(lift(sessions, [(58, "ada", None, 1)]), complete_ms=60)
    late = growing.add(lift(sessions, [(5, "ada", None, 1), (52, "ada", None, 1)]), complete_ms=60)
    assert times(sessions, late.frame) == [(5, 5, 1)]
    assert times(sessions, growing.end().frame) == [(52, 58, 2)]


def test_equal_hashes_are_told_apart_by_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(columns: list[pl.Series], seed: int) -> pl.Series:  # noqa: ARG001
        return pl.Series("hash", [5] * len(columns[0]), dtype=pl.UInt64)

    monkeypatch.setattr(cbt.layout.layout, "key_hash", collide)
    sessions = layout()
    events: list[Event] = [(time, user, None, 1) for time in (1, 2, 3) for user in ("b", None, "a")]
    growing = OpenSessions(sessions)
    growing.add(sessions.combine([lift(sessions, events), lift(sessions, events)]), complete_ms=0)
    assert rows(sessions, growing.end().frame) == model(sessions, events + events)[0]


def test_without_keys_all_events_are_one_activity() -> None:
    sessions = SessionLayout([], [Aggregate("n", "count", None, "any")], gap_ms=5, max_ms=20, pane_ms=20)
    pieces = sessions.lift(pl.DataFrame({"time": [1, 2, 12]}))
    assert sessions.lower(pieces).rows() == [(1, 2, 2), (12, 12, 1)]


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="maximum length of whole panes, not a gap of 7 ms and 30 ms in panes of 20"):
        SessionLayout(KEYS, AGGREGATES, gap_ms=7, max_ms=30, pane_ms=20)
    with pytest.raises(ValueError, match="a gap of 0 ms"):
        SessionLayout(KEYS, AGGREGATES, gap_ms=0, max_ms=20, pane_ms=20)
    with pytest.raises(ValueError, match="no other may be"):
        SessionLayout([Key("session.end", "any")], [], gap_ms=7, max_ms=20, pane_ms=20)
    with pytest.raises(ValueError, match="'time' without NULL"):
        layout().lift(pl.DataFrame({"time": [None], "user": ["ada"], "device": [1], "x": [1]}))
    growing = OpenSessions(layout())
    growing.add(layout().empty(), complete_ms=60)
    with pytest.raises(ValueError, match="cannot go back to 40"):
        growing.add(layout().empty(), complete_ms=40)
