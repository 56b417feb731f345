"""A job's function changed in flight: each window on one version, nothing lost, and who is behind is named."""

from __future__ import annotations

import pytest
from memory_fleet import COUNT, KEY, WALL_MS, Fleet, events
from recording_client import client_of

import query
from agent import Update, Updated, UpdateRefused, WindowResult
from agent.runtime.job.local_job import LocalJob
from agent.runtime.master import rollout
from agent.runtime.master.rollout import BOUNDED, BUSY, FULL
from agent.runtime.messages.jobs import Enrolled
from query.model.timestamps import parse_timestamp

GRACE_MS = 1000
FEW = "SELECT product, COUNT(*) AS n FROM web WHERE product = 'a' GROUP BY product WINDOWING 1 SECOND"


def live(size: int = 3, text: str = COUNT) -> Fleet:
    """A fleet in which a live job has its first window before it, at second 1."""
    fleet = Fleet(size)
    fleet.wait(0.5)
    fleet.submit(text, bounded=False, grace_ms=GRACE_MS)
    fleet.catch_up()
    return fleet


def update(fleet: Fleet, text: str, *, by: int = 0, reset: bool = False) -> None:
    anything = query.Schema({}, open=True)
    plan = query.analyze(query.parse(text), {"web": anything, "shop": anything})
    client_of(fleet.agents[by]).update(Update(KEY, plan.to_wire(), text, reset, 0), fleet.now, fleet.wall_ms)
    fleet.settle()


def answers(fleet: Fleet, by: int = 0) -> list[Updated | UpdateRefused]:
    return [one for one in fleet.notices(by) if isinstance(one, Updated | UpdateRefused)]


def start_of(result: WindowResult) -> int:
    """The window's start in epoch milliseconds."""
    start = parse_timestamp(result.window_start or "")
    assert start is not None
    return start


def shown(results: list[WindowResult]) -> list[tuple[int, int, dict[str, int], int]]:
    """Every window: its start in seconds after the first instant, version, counts, contributors."""
    return [
        (
            (start_of(r) - WALL_MS) // 1000,
            r.version,
            {row["product"]: row["n"] for row in r.rows},
            r.contributors,
        )
        for r in results
    ]


def log(fleet: Fleet, second: float, *products: str) -> None:
    for number in range(len(fleet.agents)):
        fleet.insert(number, events(*products, at_ms=WALL_MS + int(second * 1000)))
    fleet.settle()


def test_windows_that_have_begun_end_on_the_version_they_began_on() -> None:
    fleet = live()
    log(fleet, 1.2, "a", "b")
    log(fleet, 2.2, "a", "b")
    update(fleet, FEW)
    log(fleet, 2.4, "b")
    log(fleet, 3.2, "a", "b")
    log(fleet, 4.2, "a", "b", "b")
    assert [outcome(one) for one in answers(fleet)] == [(2, WALL_MS + 3000, 3, 3, [])]
    log(fleet, 6.5, "b")
    fleet.work()
    assert shown(fleet.results) == [
        (1, 1, {"a": 3, "b": 3}, 3), (2, 1, {"a": 3, "b": 6}, 3), (3, 2, {"a": 3}, 3), (4, 2, {"a": 3}, 3)
    ]  # fmt: skip


def outcome(answer: Updated | UpdateRefused) -> tuple[int, int, int, int, list[str]]:
    """What an update has brought about."""
    assert isinstance(answer, Updated)
    return answer.version, answer.starts, answer.agents, answer.expected, answer.laggards


def settle_update(fleet: Fleet, by: int = 0) -> Updated | UpdateRefused:
    """The answer to the last update, however long it takes."""
    for _ in range(30):
        for one in answers(fleet, by):
            return one
        fleet.catch_up()
        fleet.wait(0.5)
    raise AssertionError("nobody answered")


@pytest.mark.parametrize("by", range(3))
def test_any_agent_can_be_asked_and_learns_of_all(by: int) -> None:
    fleet = live()
    update(fleet, FEW, by=by)
    told = settle_update(fleet, by)
    assert isinstance(told, Updated)
    assert (told.version, told.agents, told.expected, told.laggards) == (2, 3, 3, [])
    assert {job.version for agent in fleet.agents for job in agent.directory.all()} == {2}
    assert {job.version for agent in fleet.agents for job in agent.status().jobs} == {2}


def test_everyone_hears_of_a_new_version_at_once() -> None:
    """Whoever wants the next change has to know of this one, however seldom the job is announced by then."""
    fleet = live()
    for _ in range(25):
        fleet.wait(0.5)
        fleet.catch_up()
    update(fleet, FEW)
    assert isinstance(settle_update(fleet), Updated)
    assert {job.version for agent in fleet.agents for job in agent.directory.all()} == {2}


def test_a_column_may_be_read_as_another_type_from_then_on() -> None:
    fleet = live(1, "SELECT SUM(price) AS n FROM web WINDOWING 1 SECOND")
    update(fleet, "SELECT COUNT(*) AS n FROM web WHERE price = 'free' WINDOWING 1 SECOND")
    (feed,) = fleet.agents[0].ingest.feeds()
    assert [column.type for column in feed.columns] == ["number", "string"]
    settle_update(fleet)
    at = fleet.now + 1.5
    fleet.insert(0, events("a", "b", at_ms=WALL_MS + int(at * 1000), price=["free", "free"]))
    fleet.insert(0, events("c", at_ms=WALL_MS + int(at * 1000) + 9000, price=["3"]))
    fleet.work()
    last = fleet.results[-1]
    assert (last.version, last.rows) == (2, [{"n": 2}])
    (feed,) = fleet.agents[0].ingest.feeds()
    assert [column.type for column in feed.columns] == ["string"], "what nobody needs any more is not read"


def test_shorter_windows_begin_where_a_longer_one_ends() -> None:
    fleet = live(1, COUNT.replace("1 SECOND", "10 SECONDS"))
    log(fleet, 11.0, "a")
    update(fleet, FEW)
    assert outcome(settle_update(fleet)) == (2, WALL_MS + 20_000, 1, 1, [])
    for second in (12.0, 19.9, 20.0, 21.0, 30.0):
        log(fleet, second, "a")
    fleet.work()
    assert shown(fleet.results) == [(10, 1, {"a": 3}, 1), (20, 2, {"a": 1}, 1), (21, 2, {"a": 1}, 1)]


def test_a_reset_gives_up_the_windows_under_way() -> None:
    fleet = live(1, COUNT.replace("1 SECOND", "10 SECONDS"))
    log(fleet, 11.0, "a")
    update(fleet, FEW, reset=True)
    assert outcome(settle_update(fleet)) == (2, WALL_MS + 12_000, 1, 1, [])
    for second in (11.5, 12.0, 30.0):
        log(fleet, second, "a")
    fleet.work()
    assert shown(fleet.results) == [(12, 2, {"a": 1}, 1)]


def test_windows_of_odd_lengths_overlap_and_none_lacks_anything() -> None:
    fleet = live(1, COUNT.replace("1 SECOND", "3 SECONDS"))
    log(fleet, 4.0, "a")
    update(fleet, FEW.replace("1 SECOND", "4 SECONDS"))
    told = settle_update(fleet)
    assert isinstance(told, Updated)
    for second in range(5, 40):
        log(fleet, second, "a")
    fleet.work()
    windows = shown(fleet.results)
    old, new = [one for one in windows if one[1] == 1], [one for one in windows if one[1] == 2]
    assert all(n == {"a": 3} for _, _, n, _ in old[1:])
    assert all(n == {"a": 4} for _, _, n, _ in new)
    assert new[0][0] == (told.starts - WALL_MS) // 1000 <= old[-1][0] + 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT COUNT(*) AS n FROM web", "it cannot run for ever"),
        ("SELECT COUNT(*) AS n FROM shop WINDOWING 1 SECOND", "keeps the job's stream, web"),
    ],
)
def test_what_cannot_be_changed_is_refused_with_the_reason(text: str, said: str) -> None:
    fleet = live()
    update(fleet, text)
    told = settle_update(fleet)
    assert isinstance(told, UpdateRefused)
    assert (told.kind, said in told.reason) == ("usage", True)


def test_a_job_over_what_logs_hold_is_not_changed() -> None:
    fleet = Fleet(3)
    fleet.submit()
    update(fleet, FEW)
    assert answers(fleet) == [UpdateRefused(KEY, BOUNDED, "usage")]


def test_a_job_that_is_nowhere_is_unknown() -> None:
    fleet = Fleet(3)
    update(fleet, FEW)
    assert answers(fleet) == [UpdateRefused(KEY, "", "unknown")]


def test_one_update_goes_on_at_a_time() -> None:
    fleet = live()
    update(fleet, FEW, by=1)
    update(fleet, COUNT.replace("1 SECOND", "2 SECONDS"), by=2)
    assert answers(fleet, 2) == [UpdateRefused(KEY, BUSY.format(number=2), "usage")]
    assert isinstance(settle_update(fleet, 1), Updated)


@pytest.mark.parametrize("more", [0, 1, 20])
def test_so_many_versions_are_in_force_at_a_time(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Late events are waited for so long that no window is out before the last update."""
    monkeypatch.setattr(rollout, "VERSIONS_MAX", 3)
    fleet = Fleet(3)
    fleet.wait(0.5)
    fleet.submit(COUNT, bounded=False, grace_ms=600_000)
    fleet.catch_up()
    told: list[Updated | UpdateRefused] = []
    for number in range(2 + more):
        update(fleet, FEW.replace("'a'", f"'{number}'"))
        while len(told := [*told, *answers(fleet)]) <= number:
            fleet.wait(0.5)
            fleet.catch_up()
            assert fleet.now < 300.0, "nobody answered"
        fleet.wait(2.0)
        fleet.catch_up()
    assert [isinstance(one, Updated) for one in told] == [True, True] + [False] * more
    assert all(one == UpdateRefused(KEY, FULL, "usage") for one in told[2:])


def test_where_one_agent_cannot_run_it_the_job_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of an older make, say."""
    fleet = live()
    parts = fleet.agents[1].jobs.get(KEY)
    assert parts is not None
    assert parts.versions is not None

    def cannot(*_proposed: object) -> None:
        raise query.PlanError("unknown function median")

    assert fleet.agents[1].masters.state(KEY) is None, "it only works"
    monkeypatch.setattr(parts.versions, "propose", cannot)
    update(fleet, FEW)
    assert settle_update(fleet) == UpdateRefused(KEY, "agent-1 cannot run it: unknown function median", "usage")
    assert {job.version for agent in fleet.agents for job in agent.status().jobs} == {1}
    assert all(
        part.pipeline is None or part.pipeline._proposed is None for agent in fleet.agents for part in agent.jobs
    )
    log(fleet, 1.2, "a")
    log(fleet, 5.2, "a")
    fleet.work()
    assert shown(fleet.results) == [(1, 1, {"a": 3}, 3)]


def test_an_agent_that_cannot_read_the_plan_of_a_job_is_missing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, install = Fleet(3), LocalJob.install
    (earlier,) = [one for one in fleet.agents if one.name == "agent-1"]

    def installed(job: LocalJob, message: Enrolled) -> None:
        if job is earlier.jobs.get(KEY):
            raise query.PlanError("a plan of a later release")
        install(job, message)

    monkeypatch.setattr(LocalJob, "install", installed)
    fleet.wait(0.5)
    fleet.submit(COUNT, bounded=False, grace_ms=GRACE_MS)
    fleet.catch_up()
    assert earlier.masters.state(KEY) is None, "it only works"
    log(fleet, 1.2, "a")
    log(fleet, 5.2, "a")
    fleet.work()
    assert shown(fleet.results) == [(1, 1, {"a": 2}, 2)]
    assert (fleet.results[0].expected, fleet.results[0].missing) == (3, ["agent-1"])
    assert sum(one.jobs.get(KEY) is not None for one in fleet.agents) == 2


def test_an_announcement_from_before_a_request_to_prepare_withdraws_nothing() -> None:
    fleet = live()
    overtaken = {agent.name: agent.directory.get(KEY) for agent in fleet.agents}
    update(fleet, FEW)
    jobs = [job for agent in fleet.agents if (job := agent.jobs.get(KEY)) is not None]
    for agent in fleet.agents:
        announce = overtaken[agent.name]
        assert announce is not None
        assert announce.proposed == 0
        agent.jobs.announced(announce, fleet.now)
    assert {job.versions.proposed for job in jobs if job.versions is not None} == {2}
    for agent in fleet.agents:
        agent.jobs.announced(overtaken[agent.name], fleet.now)  # type: ignore[arg-type]
    assert {job.versions.proposed for job in jobs if job.versions is not None} == {None}, "it is withdrawn"


def test_who_does_not_hear_of_it_is_named_and_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = live()
    deaf = next(number for number, agent in enumerate(fleet.agents) if agent.masters.state(KEY) is None and number)
    part = fleet.agents[deaf].jobs.get(KEY)
    assert part is not None
    with monkeypatch.context() as patches:
        patches.setattr(part, "prepare", lambda _message: None)
        patches.setattr(part, "begin", lambda _versions: False)
        update(fleet, FEW)
        told = settle_update(fleet)
    assert isinstance(told, Updated)
    assert (told.agents, told.expected, told.laggards) == (2, 3, [f"agent-{deaf}"])
    fleet.wait_long(4.0)
    assert part.version == 2
    for second in range(20, 30):
        log(fleet, second, "a")
        fleet.work()
        fleet.wait_long(1.0)
    assert shown(fleet.results)[-1][1:] == (2, {"a": 3}, 3)


def test_each_agent_decodes_a_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is asked, has the master, works, or all of these."""
    decoded: list[object] = []
    read = query.Plan.from_wire

    def counted(data: object) -> query.Plan:
        decoded.append(data)
        return read(data)

    monkeypatch.setattr(query.Plan, "from_wire", staticmethod(counted))
    fleet = live()
    assert len(decoded) == len(fleet.agents)
    update(fleet, FEW)
    settle_update(fleet)
    assert {job.version for agent in fleet.agents for job in agent.status().jobs} == {2}
    assert len(decoded) == 2 * len(fleet.agents)
