"""Agents learn which of their panes were published without them, and count the events as late: once, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_fleet import KEY
from test_stragglers import COUNT, STEP_S, Street, begins, name
from test_updating_jobs import update

from agent.runtime.function.result import UnshownWindows
from agent.runtime.ingest.operator import SELF
from agent.runtime.ingest.panes import pane_log
from agent.runtime.ingest.panes.pane_log import PaneLog
from agent.runtime.model.incomplete import (
    HEAL_RETENTION_MS,
    SPANS_MAX,
    IncompleteSpan,
    IncompleteSpans,
    Publication,
    UnshownSpan,
    UnshownSpans,
    from_wire,
    to_wire,
)
from agent.runtime.model.panes import FIRST_PANE, Counts, Run
from elf.output.completeness import completeness
from query.model.timestamps import parse_timestamp

ME = 1 << 3
OTHERS = 0b111
ALL = ME | OTHERS


def run(after: int, upto: int) -> Run:
    counts = {pane: Counts(events=pane + 1) for pane in range(after + 1, upto + 1)}
    return Run(after, upto, SELF, pl.DataFrame({"pane": list(counts)}), counts)


@st.composite
def publications(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[tuple[int, bool]], list[bool]]:
    """Panes at which runs are cut; how far each publication goes and if with this agent; which are heard of."""
    ends = [*sorted(draw(st.sets(st.integers(0, 30), min_size=1))), 31]
    spans = [(upto, draw(st.booleans())) for upto in sorted(draw(st.sets(st.integers(0, 30), max_size=12)) | {31})]
    heard = [*(draw(st.booleans()) for _ in spans[:-1]), True]
    return [(after, upto) for after, upto in zip([-1, *ends], ends, strict=False)], spans, heard


@given(publications(), st.integers(0, 31))
def test_each_event_is_in_a_window_or_late_once(
    drawn: tuple[list[tuple[int, int]], list[tuple[int, bool]], list[bool]], sealed_first: int
) -> None:
    """Whatever is sealed before or after it is published, and whichever commits are lost."""
    runs, spans, heard = drawn
    log, told, late, before = PaneLog(), IncompleteSpans(), 0, -1
    waiting = [run(*bounds) for bounds in runs]
    while waiting and waiting[0].upto <= sealed_first:
        log.append(waiting.pop(0))
    expected = 0
    for (upto, with_me), is_heard in zip(spans, heard, strict=True):
        told.note(IncompleteSpan(before, upto, ALL if with_me else OTHERS), ALL)
        expected += 0 if with_me else sum(pane + 1 for pane in range(before + 1, upto + 1))
        before = upto
        if is_heard:
            late += log.commit(Publication.to(ME, upto, told.within(FIRST_PANE, upto)), upto).events
        if waiting:
            log.append(waiting.pop(0))
    for one in waiting:
        log.append(one)
    last = Publication.to(ME, 31, told.within(FIRST_PANE, 31))
    late += log.commit(last, 31).events
    assert late == expected
    assert log.commit(last, 31) == Counts()
    assert log.after(-1) == []


def test_a_master_names_neighbours_together_and_only_so_many_spans() -> None:
    spans = IncompleteSpans()
    for pane in range(10):
        spans.note(IncompleteSpan(pane - 1, pane, OTHERS), ALL)
    assert list(spans.within(2, 7)) == [IncompleteSpan(2, 7, OTHERS)]
    assert from_wire(to_wire(spans.within(FIRST_PANE, 99))) == [IncompleteSpan(-1, 9, OTHERS)]
    for pane in range(10, 10 + 2 * SPANS_MAX):
        spans.note(IncompleteSpan(pane - 1, pane, OTHERS if pane % 2 else ALL), ALL)
    assert len(list(spans.within(FIRST_PANE, 999))) == SPANS_MAX
    spans.forget(10**6)
    assert not spans


def test_what_was_counted_late_is_handed_in_to_no_further_master() -> None:
    log = PaneLog()
    log.append(run(-1, 4))
    without = Publication.to(ME, 4, [IncompleteSpan(1, 3, OTHERS)])
    assert log.commit(without, -1) == Counts(events=3 + 4)
    assert [(one.after, one.upto) for one in log.after(-1)] == [(-1, 1), (3, 4)]


def test_panes_of_windows_that_may_be_corrected_are_kept_for_a_time_and_then_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, kept_ms = PaneLog(heal_ms=10), 10
    log.append(run(-1, 4))
    log.append(run(4, 6))
    spans = [IncompleteSpan(-1, 1, ME), IncompleteSpan(1, 4, OTHERS)]
    assert log.commit(Publication.to(ME, 6, spans), 6) == Counts()
    assert [(one.after, one.upto) for one in log.after(-1)] == [(-1, 4)], "the other is in complete windows"
    log.append(run(6, 4 + kept_ms))
    assert log.commit(Publication.to(ME, 4 + kept_ms, spans), 4 + kept_ms) == Counts(events=3 + 4 + 5)
    assert log.after(-1) == []
    for upto in (20, 30):
        log.append(run(upto - 1, upto))
        monkeypatch.setattr(pane_log, "HEALING_BYTES_MAX", 100)
        log.commit(Publication.to(ME, upto, [IncompleteSpan(15, 30, OTHERS)]), upto)
    assert log.memory_bytes <= 100, "and for the memory that they may take"


def test_a_master_of_the_other_side_judges_anew() -> None:
    """Under the master of one side this agent was in the window; the one that remains has published without it."""
    log = PaneLog()
    log.append(run(-1, 4))
    assert log.commit(Publication.to(ME, 4, [IncompleteSpan(-1, 4, ME)]), 4) == Counts()
    assert log.commit(Publication.to(ME, 5, [IncompleteSpan(-1, 4, OTHERS)]), 5).events == 1 + 2 + 3 + 4 + 5
    assert log.commit(Publication.to(ME, 6, [IncompleteSpan(-1, 4, OTHERS)]), 6) == Counts()


def test_accounts_are_closed_after_a_while() -> None:
    log = PaneLog()
    log.append(run(-1, 4))
    log.commit(Publication(4), 4)
    log.commit(Publication(5 + HEAL_RETENTION_MS), 5)
    assert log.commit(Publication.to(ME, 10**6, [IncompleteSpan(-1, 4, OTHERS)]), 4) == Counts()


@contextmanager
def away(street: Street, slow: int) -> Iterator[None]:
    """An agent does not come to read or answer meanwhile; then it reads what was logged, and is as fast as others."""
    agent, last_read, speeds = street.fleet.agents.pop(slow), street.read[slow], dict(street.speed)
    street.speed = dict.fromkeys(range(len(street.fleet.agents)), 1.0)
    yield
    street.fleet.agents.insert(slow, agent)
    street.speed, street.read = speeds, dict.fromkeys(speeds, street.fleet.now)
    street.read[slow], street.speed[slow] = last_read, 40.0
    street.go_on(4.0)
    street.speed[slow] = 1.0
    street.go_on(10.0)


def test_an_agent_that_was_missing_and_is_back_counts_its_events_as_late_once() -> None:
    """It lives, and does not come to read or answer: it is written off. Later it reads what was logged meanwhile."""
    street = Street(f"{COUNT} ON STRAGGLER LEAP")
    slow = street.slow()
    its_name = name(street, slow)
    with away(street, slow):
        street.go_on(15.0)
        assert its_name in {who for one in street.results() for who in one.missing}
    every = street.results()
    assert [(one.contributors, one.missing) for one in every[-3:]] == [(4, [])] * 3
    assert sum(one.events + one.late for one in every) == sum(one.expected * 4 for one in every)


def test_what_it_read_for_a_version_that_is_out_is_late_as_well() -> None:
    """While it was away, the query was changed, and again once all windows of the version before were out."""
    street = Street(f"{COUNT} ON STRAGGLER LEAP")
    slow = street.slow()
    with away(street, slow):
        for seconds in (2, 1):
            street.go_on(8.0)
            update(street.fleet, f"{COUNT.replace('1 SECOND', f'{seconds} SECONDS')} ON STRAGGLER LEAP")
            street.go_on(8.0)
        assert street.results()[-1].version == 3
    every = street.results()
    assert [(one.contributors, one.missing) for one in every[-3:]] == [(4, [])] * 3
    written = 4 * 4 * (begins(every[-1]) + 1 - begins(every[0]))
    assert sum(one.events + one.late for one in every) == written


def test_what_it_read_of_windows_of_a_version_that_it_had_not_heard_of_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    street = Street(COUNT)
    deaf = street.slow()
    part = street.fleet.agents[deaf].jobs.get(KEY)
    assert part is not None
    with monkeypatch.context() as patches:
        patches.setattr(part, "prepare", lambda _message: None)
        patches.setattr(part, "begin", lambda _versions: False)
        update(street.fleet, COUNT.replace("1 SECOND", "2 SECONDS"))
        street.go_on(9.0)
    street.go_on(12.0)
    every = street.results()
    assert {who for one in every for who in one.missing} == {name(street, deaf)}
    assert [(one.version, one.contributors, one.missing) for one in every[-3:]] == [(2, 4, [])] * 3
    assert sum(one.late for one in every) > 0
    written = 4 * 4 * (begins(every[-1]) + 2 - begins(every[0]))
    assert sum(one.events + one.late for one in every) == written


def quiet(street: Street, seconds: float) -> None:
    """Nobody who is there has any events for a time."""
    for _ in range(round(seconds / STEP_S)):
        street.fleet.wait(STEP_S)
        street.fleet.catch_up()
    street.read = dict.fromkeys(street.read, street.fleet.now)


def unshown(street: Street) -> list[tuple[int, list[str]]]:
    """How many seconds without a window results speak of, and who lacks there."""
    found = []
    for one in street.results():
        for span in one.unshown:
            begin, end = map(parse_timestamp, (span.window_start, span.window_end))
            assert begin is not None
            assert end is not None
            assert span.lacking == len(span.missing)
            assert (span.window_end or "") <= (one.window_start or "")
            found.append(((end - begin) // 1000, span.missing))
    return found


def test_windows_that_only_an_agent_had_that_was_away_are_not_shown_and_the_next_one_names_it() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP")
    slow = street.slow()
    its_name = name(street, slow)
    with away(street, slow):
        quiet(street, 20.0)
        street.go_on(4.0)
        before = {begins(one) for one in street.results()}
        assert not set(range(int(min(before)), int(max(before)))) <= before, "there are windows that are not shown"
    ((seconds, missing),) = unshown(street)
    assert 10 <= seconds <= 20
    assert missing == [its_name]
    lacking = [one for one in street.results() if one.missing or one.unshown]
    assert lacking, "those beside it name it too"
    assert [(one.contributors, one.missing, one.unshown) for one in street.results()[-3:]] == [(4, [], [])] * 3


def test_the_next_master_names_it_where_the_one_before_is_dead() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP", 6)
    gone = street.take_away(street.slow(), is_dead=False)
    quiet(street, 12.0)
    master = next(number for number, agent in enumerate(street.fleet.agents) if agent.masters.get(KEY) is not None)
    street.take_away(master, is_dead=True)
    quiet(street, 20.0)
    street.go_on(6.0)
    assert any(seconds >= 10 and gone in missing for seconds, missing in unshown(street))


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), max_size=30))
def test_each_pane_that_somebody_lacks_in_is_told_with_the_next_window_unless_one_shows_it(
    published: list[tuple[int, bool, bool]],
) -> None:
    """Panes in turn: how many come together, whether somebody lacks in them, and whether the last of them is shown."""
    spans, upto, told, expected, waiting = UnshownSpans(), -1, set[int](), set[int](), set[int]()
    for count, lacks, shows in published:
        after, upto = upto, upto + count
        spans.note(UnshownSpan(after, upto, ME if lacks else 0))
        waiting |= set(range(after + 1, upto + 1)) if lacks else set()
        if shows:
            told |= {pane for one in spans.shown(upto, upto + 1) for pane in range(one.after + 1, one.upto + 1)}
            expected |= waiting - {upto}
            waiting.clear()
        spans = UnshownSpans(UnshownSpan(*one) for one in from_wire(to_wire(spans)))
    assert told == expected


def test_of_very_many_spans_that_nobody_has_shown_the_oldest_become_one() -> None:
    spans = UnshownSpans()
    for pane in range(2 * SPANS_MAX):
        spans.note(UnshownSpan(pane - 1, pane, 1 << pane % 2))
    assert len(list(spans)) == SPANS_MAX
    assert next(iter(spans)) == UnshownSpan(-1, SPANS_MAX, 0b11)


def test_people_read_who_lacks_where_no_window_is_shown() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP")
    one = street.results()[-1]
    windows = UnshownWindows("2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", 22, [f"web-{n}" for n in range(20)])
    told = completeness(msgspec.structs.replace(one, unshown=[windows]))
    assert "no window shown from 2026-01-01T00:00:00Z to 2026-01-01T00:00:05Z, missing web-0, web-1, " in told
    assert told.endswith("web-19, 2 more")
    assert "unshown" not in one.to_json()
