"""Jobs of several stages: queries with trees of their own that read each other, and live and die with their job."""

from __future__ import annotations

import random
from collections import Counter

import polars as pl
import pytest
from memory_fleet import WALL_MS
from program_fleet import Make, Person, ProgramFleet
from recording_client import client_of

from agent import StreamOptions, Update
from agent.parsing import Parsed
from agent.programs import calls
from elf.errors import UsageError
from elf.program.code import CodeError
from elf.signing.creator import signed_bundle, stop_order
from overlay import Id, app_id, stage_id

STREAMS = {"likes": StreamOptions(), "buys": StreamOptions()}
Event = tuple[float, str, str, int]
"""When (seconds), in which stream, which product, how many stars."""
WANTED = """
    import elf

    class Wanted(elf.Job):
        stages = {
            "liked": "SELECT product, COUNT(*) AS n FROM likes WHERE stars > 2 GROUP BY product WINDOWING 1 SECOND",
            "bought": "SELECT product, COUNT(*) AS n FROM buys GROUP BY product WINDOWING 1 SECOND",
        }
        query = "SELECT product, SUM(n) AS n FROM app('liked') WHERE n > 3 GROUP BY product WINDOWING 2 SECONDS"
        timer_s = 1.0

        def on_timer(self):
            pass

        def on_result(self, window):
            for row in window.rows:
                self.log(f"{window.stage or 'all'} {window.window_start[14:19]} {row['product']} {row['n']}")
"""


def put(fleet: ProgramFleet, number: int, events: list[Event]) -> None:
    """Events that an agent reads."""
    for stream in STREAMS:
        rows = [(product, stars, WALL_MS + int(at * 1000)) for at, named, product, stars in events if named == stream]
        frame = pl.DataFrame(rows, {"product": pl.String, "stars": pl.Int64, "@time": pl.Int64}, orient="row")
        for feed in fleet.agents[number].ingest.feeds():
            if feed.stream == stream:
                parsed = Parsed((frame,), malformed=0)
                fleet.give(fleet.agents[number], feed.key, parsed)
    fleet.settle()


def drawn(draw: random.Random, seconds: range) -> list[Event]:
    return [
        (second + draw.randrange(9) / 10, draw.choice(list(STREAMS)), draw.choice("abc"), draw.randrange(1, 6))
        for second in seconds
        for _ in range(20)
    ]


def play(fleet: ProgramFleet, events: dict[int, list[Event]], upto: float, *streams: str) -> None:
    """Agents read events, by their numbers, and all of these streams (of both) up to a moment after those."""
    for number in range(len(fleet.agents)):
        put(fleet, number, events.get(number, []))
        put(fleet, number, [(upto, stream, "z", 0) for stream in streams or STREAMS])
    fleet.work()
    fleet.wait_long(5.0)
    fleet.work()


def begun(fleet: ProgramFleet, source: str = WANTED, by: Person | None = None) -> Id:
    """A job, once all of its stages have everybody."""
    key = fleet.submit_code(source, by)
    fleet.wait_long(3.0)
    fleet.catch_up()
    return key


def said(fleet: ProgramFleet, key: Id) -> list[str]:
    """Its log, but for what the last events are."""
    return [text for _, text in fleet.log(key) if " z " not in text]


def running(fleet: ProgramFleet) -> list[str]:
    return sorted(job.name for job in fleet.agents[0].directory.all())


def submit_stages(fleet: ProgramFleet, *names: str) -> None:
    """Starts stages alone."""
    for app, contents in fleet.contents(WANTED)[1].items():
        if app in names:
            fleet.submit_bundle(app, *signed_bundle(fleet.maria, app, contents, fleet.wall_ms))  # type: ignore[arg-type]


def stop(fleet: ProgramFleet, app: str) -> None:
    key = next(job.app_id for job in fleet.agents[0].directory.all() if (job.name, job.creator) == (app, "maria"))
    key, seal = stop_order(fleet.maria, app, fleet.wall_ms, key)  # type: ignore[arg-type]
    client_of(fleet.agents[0]).stop(key, fleet.now, seal)
    fleet.settle()


def without_master(fleet: ProgramFleet, app: str, seconds: float = 25.0) -> None:
    job = next(job for job in fleet.agents[0].directory.all() if job.name == app)
    number = next(n for n, agent in enumerate(fleet.agents) if agent.name == job.master_name)
    fleet.network.remove(fleet.agents.pop(number).node)
    fleet.wait_long(seconds)


def plainly(events: list[Event]) -> set[str]:
    """What the job says of events, counted one by one."""
    bought = Counter((int(at), product) for at, stream, product, _ in events if stream == "buys")
    liked = Counter((int(at), product) for at, stream, product, stars in events if stream == "likes" and stars > 2)
    both: Counter[tuple[int, str]] = Counter()
    for (second, product), n in liked.items():
        if n > 3:
            both[second // 2 * 2, product] += n
    stages = {"bought": bought, "liked": liked, "all": both}
    return {
        f"{stage} 13:{20 + second} {product} {n}"
        for stage, counts in stages.items()
        for (second, product), n in counts.items()
    }


def test_the_windows_of_stages_and_what_is_made_of_them_are_those_of_plain_counts(fleet_of: Make) -> None:
    fleet, draw = fleet_of(streams=STREAMS), random.Random(5)
    key = begun(fleet)
    assert running(fleet) == ["wanted", "wanted.bought", "wanted.liked"]
    events = {number: drawn(draw, range(4, 12)) for number in range(3)}
    play(fleet, events, 20.0)
    lines = said(fleet, key)
    assert len(lines) == len(set(lines))
    assert set(lines) == plainly([event for some in events.values() for event in some])


def of_all(events: dict[int, list[Event]]) -> list[Event]:
    return [event for some in events.values() for event in some]


def test_stages_read_each_other_in_whatever_order_they_are_written(fleet_of: Make) -> None:
    source = """
        import elf

        class Chain(elf.Job):
            query = "SELECT SUM(n) AS n FROM app('few') WINDOWING 4 SECONDS"
            stages = {
                "few": "SELECT SUM(n) AS n FROM app('counts') WHERE product <> 'c' WINDOWING 2 SECONDS",
                "counts": "SELECT product, COUNT(*) AS n FROM buys GROUP BY product WINDOWING 1 SECOND",
            }

            def on_result(self, window):
                if not window.stage:
                    self.log(f"{window.rows[0]['n']}")
    """
    fleet, draw = fleet_of(streams=STREAMS), random.Random(6)
    key = begun(fleet, source)
    events = {number: drawn(draw, range(8, 16)) for number in range(3)}
    play(fleet, events, 30.0)
    fleet.wait_long(5.0)
    few = [at for at, stream, product, _ in of_all(events) if stream == "buys" and product != "c"]
    assert said(fleet, key) == [str(sum(first <= at < first + 4 for at in few)) for first in (8, 12)]


def test_a_query_joins_one_stage_with_another(fleet_of: Make) -> None:
    source = WANTED.replace(
        "FROM app('liked') WHERE n > 3 GROUP BY product",
        "FROM app('liked') AS l JOIN app('bought') ON l.product = bought.product GROUP BY l.product",
    ).replace("SELECT product, SUM(n) AS n", "SELECT l.product AS product, MAX(l.n * 100 + bought.n) AS n")
    fleet = fleet_of(streams=STREAMS)
    key = begun(fleet, source)
    play(fleet, {number: [(4.5, "buys", "a", 0), (4.6, "buys", "b", 0)] for number in range(3)}, 10.2)
    likes = [(10.5, "likes", product, 5) for product in "abc"]
    play(fleet, dict.fromkeys(range(2), likes), 20.0, "likes")
    assert [line for line in said(fleet, key) if line.startswith("all")] == ["all 13:30 a 203", "all 13:30 b 203"]


def test_two_creators_may_have_jobs_and_stages_of_the_same_names(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    john = Person(fleet.authority, "john")
    ours = begun(fleet)
    theirs = begun(fleet, WANTED.replace("stars > 2", "stars > 4"), john)
    play(fleet, {0: [(9.5, "likes", "a", 3), (9.6, "likes", "a", 5)]}, 20.0)
    play(fleet, {1: [(22.5, "likes", "b", 5)] * 5}, 40.0)
    assert said(fleet, ours) == ["liked 13:29 a 2", "liked 13:42 b 5", "all 13:42 b 5"]
    assert said(fleet, theirs) == ["liked 13:29 a 1", "liked 13:42 b 5", "all 13:42 b 5"]
    stop(fleet, "wanted")
    fleet.wait_long(2.0)
    assert [(job.creator, job.name) for job in fleet.agents[0].directory.all() if job.creator == "maria"] == []
    assert running(fleet) == ["wanted", "wanted.bought", "wanted.liked"]


# Where they are.


def test_a_job_and_its_stages_have_one_root_and_one_heir(fleet_of: Make) -> None:
    fleet = fleet_of(8, streams=STREAMS)
    begun(fleet)
    for _ in range(2):
        (name,) = {job.master_name for job in fleet.agents[0].directory.all()}
        number = next(n for n, agent in enumerate(fleet.agents) if agent.name == name)
        fleet.network.remove(fleet.agents.pop(number).node)
        fleet.wait_long(25.0)
        assert running(fleet) == ["wanted", "wanted.bought", "wanted.liked"]
    assert name not in {job.master_name for job in fleet.agents[0].directory.all()}


def test_a_stage_of_the_release_before_has_a_key_of_its_own_and_is_taken(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    key = begun(fleet)
    stop(fleet, "wanted.bought")
    contents = fleet.contents(WANTED)[1]["wanted.bought"]
    old = app_id("wanted.bought", fleet.maria.public_key)
    made = signed_bundle(fleet.maria, "wanted.bought", contents, fleet.wall_ms, key=old)  # type: ignore[arg-type]
    assert fleet.submit_bundle("wanted.bought", *made) == old
    fleet.wait_long(3.0)
    fleet.catch_up()
    at = int(fleet.now) + 2
    play(fleet, {0: [(at + 0.5, "buys", "a", 0)]}, at + 10)
    assert [line for line in said(fleet, key) if line.endswith(" a 1")] != []
    stop(fleet, "wanted.bought")
    assert running(fleet) == ["wanted", "wanted.liked"]


@pytest.mark.parametrize("job", ["wanted", "other", ""])
def test_nobody_else_may_start_what_looks_like_a_stage(fleet_of: Make, job: str) -> None:
    """Not next to somebody else's job, and not under a key that belongs to another name."""
    fleet = fleet_of(streams=STREAMS)
    john = Person(fleet.authority, "john")
    contents = fleet.contents(WANTED)[1]["wanted.bought"]
    theirs = stage_id(job, "wanted.bought", fleet.maria.public_key if job == "wanted" else john.public_key)
    made = signed_bundle(john, "wanted.bought", contents, fleet.wall_ms, key=theirs)  # type: ignore[arg-type]
    fleet.submit_bundle("wanted.bought", *made)
    assert running(fleet) == []


# How they live.


def test_a_job_that_is_stopped_takes_its_stages_with_it(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    begun(fleet)
    stop(fleet, "wanted")
    fleet.wait_long(2.0)
    assert running(fleet) == []
    begun(fleet)
    fleet.wait_long(60.0)
    assert running(fleet) == ["wanted", "wanted.bought", "wanted.liked"], "of what went before, nothing stays"


def test_a_job_whose_code_fails_takes_its_stages_with_it(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    key = begun(fleet, WANTED.replace("pass", "assert self.now_ms % 100_000 < 8_000"))
    assert len(running(fleet)) == 3
    fleet.wait_long(10.0)
    assert running(fleet) == []
    assert "AssertionError" in said(fleet, key)[-1]


def test_a_job_that_finishes_takes_its_stages_with_it(fleet_of: Make) -> None:
    source = WANTED.replace(
        "FROM app('liked') WHERE n > 3 GROUP BY product WINDOWING 2 SECONDS", "FROM buys GROUP BY product"
    )
    fleet = fleet_of(streams=STREAMS)
    fleet.submit_code(source.replace("{window.window_start[14:19]}", ""))
    fleet.wait_long(3.0)
    fleet.finish()
    fleet.wait_long(2.0)
    assert running(fleet) == []


def test_a_stage_without_its_job_stops(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    submit_stages(fleet, "wanted.bought", "wanted.liked")
    fleet.wait_long(20.0)
    assert running(fleet) == ["wanted.bought", "wanted.liked"]
    fleet.wait_long(15.0)
    assert running(fleet) == []


def test_a_stage_that_is_gone_is_told_in_the_log_and_so_is_its_return(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    key = begun(fleet)
    stop(fleet, "wanted.bought")
    fleet.wait_long(15.0)
    assert said(fleet, key) == ["stage bought: does not run: there are no windows of it"]
    submit_stages(fleet, "wanted.bought")
    fleet.wait_long(3.0)
    fleet.catch_up()
    assert said(fleet, key)[1:] == ["stage bought: runs again"]
    at = int(fleet.now) + 2
    play(fleet, {0: [(at + 0.5, "buys", "a", 0)]}, at + 10)
    assert said(fleet, key)[2:] == [line for line in said(fleet, key) if line.endswith(" a 1")] != []


@pytest.mark.parametrize("app", ["wanted", "wanted.liked"])
def test_the_next_master_goes_on_with_the_stages(fleet_of: Make, app: str) -> None:
    fleet, draw = fleet_of(6, streams=STREAMS), random.Random(7)
    key = begun(fleet)
    events = {number: drawn(draw, range(4, 10)) for number in range(6)}
    play(fleet, events, 20.0)
    before = set(said(fleet, key))
    assert before == plainly(of_all(events))
    without_master(fleet, app)
    later = {number: drawn(draw, range(30, 34)) for number in range(5)}
    play(fleet, later, 50.0)
    assert len(running(fleet)) == 3
    assert set(said(fleet, key)) - before == plainly(of_all(later))


def test_after_an_update_stages_speak_to_the_new_code_alone(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    key = begun(fleet)
    (first,) = [master.versions.newest.version.bundle for agent in fleet.agents if (master := agent.masters.state(key))]
    assert first is not None
    new = WANTED.replace("{window.stage or 'all'}", "new {window.stage or 'all'}")
    _, _, bundle = fleet.bundle(new, after=(1, first.digest(key)))
    function = bundle.contents.functions[0]
    client_of(fleet.agents[0]).update(
        Update(key, function.plan, function.text, False, 0, bundle), fleet.now, fleet.wall_ms
    )
    fleet.settle()
    fleet.wait_long(3.0)
    play(fleet, {0: [(9.5, "likes", "a", 3)] * 4}, 20.0)
    assert said(fleet, key) == ["new liked 13:29 a 4", "new all 13:28 a 4"]


def test_a_new_master_can_read_the_last_windows_of_a_stage(fleet_of: Make) -> None:
    source = WANTED.replace("pass", """
            if self.is_root:
                for window in self.ask("liked", windows=2):
                    self.log(f"asked {window.stage} {window.rows}")
    """)  # fmt: skip
    fleet = fleet_of(streams=STREAMS)
    key = begun(fleet, source)
    play(fleet, {0: [(4.5, "likes", "a", 3)], 1: [(5.5, "likes", "b", 3)]}, 14.0)
    assert said(fleet, key)[-2:] == ["asked liked [{'product': 'a', 'n': 1}]", "asked liked [{'product': 'b', 'n': 1}]"]


# What cannot be a stage.

NAMES = "Wanted.stages: is to be a dict of at most 8 queries by name, as in likes or top-ten"
ENDLESS = "stage bought: has no WINDOWING, and goes on as long as its job"
CIRCLE = "stages: {}: what goes round in a job is fed back by multicast"
LIKES, BUYS = "COUNT(*) AS n FROM likes WHERE stars > 2", "COUNT(*) AS n FROM buys"


@pytest.mark.parametrize(
    ("message", "before", "after"),
    [
        (NAMES, '"liked": ', '"Liked": '),
        (NAMES, '"liked": ', '"liked.here": '),
        (NAMES, '"liked": ', "7: "),
        (NAMES, '"liked": ', '**dict.fromkeys("abcdefgh", "SELECT"), "liked": '),
        (CIRCLE.format("liked, which reads liked"), LIKES, "COUNT(*) AS n FROM app('liked')"),
        (CIRCLE.format("liked, which reads wanted, which reads liked"), LIKES, "COUNT(*) AS n FROM app('wanted')"),
        (ENDLESS, f"{BUYS} GROUP BY product WINDOWING 1 SECOND", f"{BUYS} GROUP BY product"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_stage_is_refused(fleet_of: Make, message: str, before: str, after: str) -> None:
    assert before in WANTED
    with pytest.raises((UsageError, CodeError)) as refused:
        fleet_of(streams=STREAMS).submit_code(WANTED.replace(before, after))
    assert str(refused.value) == message


def test_stages_that_read_each_other_are_refused(fleet_of: Make) -> None:
    source = WANTED.replace(LIKES, "SUM(n) AS n FROM app('bought')").replace(BUYS, "SUM(n) AS n FROM app('liked')")
    with pytest.raises(UsageError) as refused:
        fleet_of(streams=STREAMS).submit_code(source)
    assert str(refused.value) == CIRCLE.format("liked, which reads bought, which reads liked")


def test_a_process_that_says_its_job_has_more_stages_is_not_believed() -> None:
    about = calls.JobDescription(
        "wanted", "SELECT", {}, dict.fromkeys("abcdefghi", "SELECT"), None, {}, False, False, False, False
    )
    with pytest.raises(ValueError, match="<= 8"):
        calls.read_act(calls.encode(calls.CodeLoaded(about)))
