"""An agent knows when the panes of its jobs are due, so that its logs are looked at then."""

from __future__ import annotations

from dataclasses import replace

from memory_fleet import KEY, WALL_MS, Fleet, events
from recording_client import client_of

from agent import Submit, Update
from agent.runtime.ingest.feed import FeedKey
from overlay import app_id
from query import Schema, analyze, parse

WEB: FeedKey = ("web", None)
COUNT = "SELECT product, COUNT(*) AS n FROM web GROUP BY product"


class Dues:
    """A fleet whose jobs read `web`, and the times at which panes of its first agent are due."""

    def __init__(self) -> None:
        self.fleet = Fleet(2)

    def submit(self, text: str, name: str = "shop") -> None:
        self.fleet.submit(f"{COUNT} {text}", name, bounded=False)
        self.run(2000)

    def submit_looking(self, name: str, look_ms: int) -> None:
        """Submits a job whose logs are looked at so often."""
        text = f"{COUNT} WINDOWING 500 MILLISECONDS WITHIN 2 SECONDS"
        plan = analyze(parse(text), {"web": Schema({}, open=True)})
        assert plan.within is not None
        looking = replace(plan, within=replace(plan.within, look_ms=look_ms))
        job = Submit(app_id(name, b""), name, "web", looking.to_wire(), text, bounded=False)
        client_of(self.fleet.agents[0]).submit(job, self.fleet.now, self.fleet.wall_ms)
        self.fleet.settle()
        self.run(2000)

    def look_s(self) -> float | None:
        return self.fleet.agents[0].ingest.look_s(WEB)

    def run(self, ms: int) -> None:
        """Lets time pass, in which logs are read to their ends now and then."""
        for _ in range(0, ms, 100):
            self.fleet.wait(0.1)
            self.fleet.catch_up()

    def of_a_second(self) -> set[int]:
        """Everything that is due in the next second: each look closes panes, after which others are due."""
        found, end = set[int](), self.fleet.wall_ms + 1000
        while (due := self._next(self.fleet.wall_ms)) is not None and due <= end:
            self.fleet.wait((due - self.fleet.wall_ms) / 1000)
            self.fleet.catch_up()
            found.add(int(due))
        self.fleet.wait((end - self.fleet.wall_ms) / 1000)
        self.fleet.catch_up()
        return found

    def next(self) -> float | None:
        return self._next(self.fleet.wall_ms)

    def _next(self, after_ms: int) -> float | None:
        return self.fleet.agents[0].ingest.next_due(WEB, after_ms)


def ends(size_ms: int, grace_ms: int, since_ms: int) -> set[int]:
    """When windows and their grace are over, in the second after a time."""
    return {at for at in range(since_ms + 1, since_ms + 1001) if (at - grace_ms) % size_ms == 0}


def test_panes_of_several_jobs_are_due_at_their_own_ends() -> None:
    dues = Dues()
    dues.submit("WINDOWING 500 MILLISECONDS GRACE 35 MILLISECONDS", "half")
    dues.submit("WINDOWING 300 MILLISECONDS GRACE 20 MILLISECONDS", "third")
    now = dues.fleet.wall_ms
    assert dues.of_a_second() == ends(500, 35, now) | ends(300, 20, now)


def test_what_a_job_is_stopped_or_changed_to_is_due_then() -> None:
    dues = Dues()
    dues.submit("WINDOWING 500 MILLISECONDS GRACE 35 MILLISECONDS")
    text = f"{COUNT} WINDOWING 200 MILLISECONDS GRACE 35 MILLISECONDS"
    plan = analyze(parse(text), {"web": Schema({}, open=True)})
    client = client_of(dues.fleet.agents[0])
    client.update(Update(KEY, plan.to_wire(), text, False, 0), dues.fleet.now, dues.fleet.wall_ms)
    dues.run(4000)
    now = dues.fleet.wall_ms
    assert dues.of_a_second() == ends(200, 35, now)
    client.stop(KEY, dues.fleet.now)
    dues.run(2000)
    assert dues.next() is None


def test_logs_are_looked_at_as_often_as_any_of_their_jobs_needs() -> None:
    dues = Dues()
    assert dues.look_s() is None
    dues.submit_looking("half", 500)
    assert dues.look_s() == 0.5
    dues.submit_looking("third", 300)
    assert dues.look_s() == 0.3
    dues.submit("WINDOWING 1 SECOND", "any")
    assert dues.look_s() is None, "nobody has said how often is enough for it"


def test_nothing_is_due_without_windows_or_before_a_job_begins() -> None:
    dues = Dues()
    assert dues.next() is None
    dues.fleet.submit(COUNT, "all", bounded=False)
    dues.run(2000)
    assert dues.next() is None


def test_a_log_that_was_behind_is_looked_at_for_what_is_due_now() -> None:
    """Panes of the past are closed by what is read, and none of them is due any more."""
    dues = Dues()
    dues.submit("WINDOWING 500 MILLISECONDS GRACE 35 MILLISECONDS")
    dues.fleet.insert(0, events("a", at_ms=WALL_MS))
    dues.fleet.wait(7.0)
    dues.fleet.insert(0, events("b", at_ms=WALL_MS + 3000))
    assert dues.next() is None
    dues.fleet.catch_up()
    now = dues.fleet.wall_ms
    assert dues.of_a_second() == ends(500, 35, now)
