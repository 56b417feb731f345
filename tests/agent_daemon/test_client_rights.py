"""The rights of clients over the jobs that an agent knows by their announcements."""

from __future__ import annotations

import pytest

from agent.access.decision import Access
from agent.access.rules import AccessRole, AccessRule, Principal
from agent.control import messages as control
from agent.control.client_rights import SUBMITTED_MAX, ClientRights
from agent.control.needs import needs_of_query
from agent.control.server import MissingRightError
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.jobs import Announce, Stopped, Submit
from agent.runtime.model.epoch import JobEpoch
from overlay import Id, Peer, app_id
from query import parse

ALICE = Principal("alice", "alice@web-1", frozenset(("alice",)))
MASTER = Peer(Id(7), "master:1")


def announce(directory: JobDirectory, name: str, owner: str, creator: str = "", born_ms: int = 1) -> Announce:
    announced = Announce(
        app_id(name, creator.encode()), JobEpoch(born_ms, 1, MASTER.node_id), MASTER, "web-7", name, "web",
        f"SELECT {name}", False, 1, 0, 1, 1, creator=creator, owner=owner,
    )  # fmt: skip
    assert directory.add(announced, 0.0)
    return announced


@pytest.fixture
def directory() -> JobDirectory:
    return JobDirectory()


@pytest.fixture
def rights(directory: JobDirectory) -> ClientRights:
    return ClientRights(Access("web-1", [AccessRule(AccessRole.QUERY, users=("alice",), apps=())]), directory)


def may(rights: ClientRights, request: control.Request) -> bool:
    try:
        rights.check_request(ALICE, request)
    except MissingRightError:
        return False
    return True


def may_query(rights: ClientRights, text: str) -> bool:
    try:
        rights.check(ALICE, needs_of_query(parse(text), rights.jobs_named))
    except MissingRightError:
        return False
    return True


def test_lists_hide_the_queries_of_others(rights: ClientRights, directory: JobDirectory) -> None:
    announce(directory, "mine", ALICE.owner)
    announce(directory, "theirs", "bob@web-2")
    assert {(job.app, job.query, job.owner) for job in rights.described_jobs(ALICE)} == {
        ("mine", "SELECT mine", "alice@web-1"), ("theirs", "", "bob@web-2"),
    }  # fmt: skip


def test_a_query_needs_rights_over_every_job_that_it_may_mean(rights: ClientRights, directory: JobDirectory) -> None:
    """One's own job may have a name by which another is called."""
    announce(directory, "sums@maria", ALICE.owner, born_ms=2)
    assert may_query(rights, "SELECT COUNT(*) FROM app('sums@maria')")
    announce(directory, "sums", "bob@web-2", creator="maria")
    assert not may_query(rights, "SELECT COUNT(*) FROM app('sums@maria')")
    assert not may_query(rights, "SELECT COUNT(*) FROM app('sums')")


def test_a_job_is_its_submitters_before_and_after_it_is_announced(
    rights: ClientRights, directory: JobDirectory
) -> None:
    key = app_id("new", b"")
    assert not may(rights, control.FollowRequest("new"))
    rights.submitted(Submit(key, "new", "web", {}, owner=ALICE.owner))
    assert may(rights, control.FollowRequest("new"))
    announced = announce(directory, "new", ALICE.owner)
    assert may(rights, control.StopRequest("new"))
    directory.end(Stopped(key, announced.epoch, "stopped"))
    assert may(rights, control.GetLog("new")), "the log is read after the end too"
    announce(directory, "new", "bob@web-2", born_ms=9)
    assert not may(rights, control.FollowRequest("new")), "somebody else has taken the name"


def test_only_so_many_submitted_jobs_are_remembered(rights: ClientRights) -> None:
    for number in range(SUBMITTED_MAX + 1):
        name = f"job-{number}"
        rights.submitted(Submit(app_id(name, b""), name, "web", {}, owner=ALICE.owner))
    assert not may(rights, control.FollowRequest("job-0"))
    assert may(rights, control.FollowRequest("job-1"))


def test_orders_are_those_of_the_owner_unless_the_client_operates(
    rights: ClientRights, directory: JobDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "elf.agent")
    key = announce(directory, "theirs", "bob@web-2").app_id
    assert rights.acting_owner(ALICE, key, "stop") == "alice@web-1"
    rights.access.rules = (AccessRule(AccessRole.OPERATE, users=("alice",), apps=("theirs",)),)
    assert rights.acting_owner(ALICE, key, "stop") == ""
    (record,) = caplog.records
    fields = {"order": "stop", "job": "theirs", "owner": "bob@web-2", "by": "alice@web-1"}
    assert record.__dict__["fields"] == fields, "who has stopped it is in the log"
