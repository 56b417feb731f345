"""Who may do what: every role and every request, for one's own jobs, those of others and those of creators."""

from __future__ import annotations

from typing import get_args

import pytest

from agent.access.decision import Access, Need
from agent.access.owners import owner_of_creator
from agent.access.rules import AccessRole, AccessRule, JobTarget, Principal, standing_rules
from agent.control import messages as control
from agent.control.needs import NEEDS, needs_of, needs_of_plan, needs_of_query
from agent.runtime.messages.emissions import SentEvents
from overlay import Id, app_id, format_id
from query import Schema, analyze, parse

KEY, KEY_ID = b"\x07" * 32, "0" * 32
MARIA = Principal("maria", owner_of_creator("maria", KEY_ID), creators=frozenset(("maria", KEY_ID)), key=KEY)
ALICE = Principal("alice", "alice@web-1", frozenset(("alice", "1001")), frozenset(("elf", "500")))
JOBS = {
    "own": JobTarget(Id(1), "own", "alice@web-1"),
    "other": JobTarget(Id(2), "other", "bob@web-2"),
    "signed": JobTarget(app_id("signed", KEY), "signed", "bob@web-2", "maria"),
}
ABOUT_JOBS = {
    "follow": lambda job: control.FollowRequest(job.name),
    "ask": lambda job: control.AskRequest(job.name),
    "log": lambda job: control.GetLog(job.name),
    "tree": lambda job: control.GetTree(job.name),
    "elements": lambda job: control.GetElements(job.name),
    "element-state": lambda job: control.GetElements(job.name, ["said"]),
    "place": lambda job: control.PlaceGroups(job.name),
    "latency": lambda job: control.GetLatency(job.name),
    "move": lambda job: control.PlaceGroups(job.name, [3], "web-2"),
    "emit": lambda job: control.EmitRequest(job.name, KEY_ID, SentEvents("Word", 0, b"")),
    "update": lambda job: control.UpdateJob(job.name, "SELECT COUNT(*) FROM web"),
    "signed-update": lambda job: control.UpdateBundle(job.name, format_id(job.app_id), b"bundle"),
    "stop": lambda job: control.StopRequest(job.name),
    "signed-stop": lambda job: control.StopRequest(job.name, format_id(job.app_id), b"seal"),
}
ABOUT_NO_JOB: dict[str, control.Request] = {
    "query": control.QueryRequest("SELECT COUNT(*) FROM web"),
    "analyse": control.AnalyseRequest("SELECT COUNT(*) FROM web"),
    "run-dry": control.RunDry("SELECT COUNT(*) FROM web WINDOWING 1 SECOND"),
    "submit": control.SubmitRequest("new", KEY_ID, b"bundle"),
    "describe": control.DescribeRequest("web"),
    "survey": control.SurveyRequest("web, api-*"),
    "jobs": control.GetJobs(),
    "fleet": control.GetFleet(),
    "all-elements": control.GetElements(),
    "tap": control.TapRequest("web"),
    "status": control.GetStatus(),
    "drain": control.DrainRequest(1.0),
    "reload": control.ReloadRequest(),
}
MATRIX = """
               own      other    signed
follow         read     read     read
ask            read     read     read
log            read     read     read
tree           read     read     read
elements       read     read     read
element-state  read     read     read
place          read     read     read
latency        read     read     read
move           query    operate  operate
emit           query    operate  operate
update         query    operate  query
signed-update  query    query    query
stop           query    operate  query
signed-stop    query    operate  query
"""
"""The least role for a request about one's own job, another's query and a job that its creator has signed: there the
creator's signature decides, and the job's master asks for it."""
WITHOUT_JOBS = (
    "query query analyse query run-dry query submit query describe read survey read jobs read fleet read "
    "all-elements read tap query status read drain operate reload operate"
)


CELLS = [
    (f"{verb} {job}", ABOUT_JOBS[verb](JOBS[job]), AccessRole[word.upper()])
    for verb, *words in (line.split() for line in MATRIX.strip().splitlines()[1:])
    for job, word in zip(JOBS, words, strict=True)
] + [
    (verb, ABOUT_NO_JOB[verb], AccessRole[word.upper()])
    for verb, word in zip(WITHOUT_JOBS.split()[::2], WITHOUT_JOBS.split()[1::2], strict=True)
]


def named(found: str | Id) -> JobTarget:
    return next(job for job in JOBS.values() if found in (job.name, job.app_id))


def all_named(name: str) -> tuple[JobTarget, ...]:
    return (named(name),)


def test_every_request_is_in_the_matrix() -> None:
    needing = {type(request) for _, request, _ in CELLS}
    assert set(NEEDS) == set(get_args(control.Request)) == needing | {control.GetRights}
    assert needs_of(control.GetRights(), named) == (), "everybody may know their own rights"


@pytest.mark.parametrize(("request_", "least"), [cell[1:] for cell in CELLS], ids=[cell[0] for cell in CELLS])
@pytest.mark.parametrize("role", [None, *AccessRole], ids=str)
def test_role_and_request(role: AccessRole | None, request_: control.Request, least: AccessRole) -> None:
    access = Access("web-1", () if role is None else (AccessRule(role, users=("alice",)),))
    refusal = access.refusal(ALICE, needs_of(request_, named))
    assert (refusal is None) == (role is not None and role >= least)
    if refusal is not None:
        assert refusal.startswith("alice may not ")
        assert f"needs the right {least.word}" in refusal
        assert "[[access]] in agent.toml of agent web-1 grants it" in refusal


@pytest.mark.parametrize(
    ("streams", "apps", "text", "allowed"),
    [
        (("web",), (), "SELECT COUNT(*) FROM web", True),
        (("web",), (), "SELECT COUNT(*) FROM api", False),
        (("web",), (), "SELECT COUNT(*) FROM web, api", False),
        (("web", "api"), (), "SELECT COUNT(*) FROM web, api", True),
        (("api-*",), (), "SELECT COUNT(*) FROM \"api-eu-*\"", True),
        (("api-?",), (), "SELECT COUNT(*) FROM \"api-*\"", False),
        (("api-*",), (), "SELECT COUNT(*) FROM *", False),
        (("*",), (), "SELECT COUNT(*) FROM app('other')", False),
        (("*",), (), "SELECT COUNT(*) FROM app('own')", True),
        ((), ("o*",), "SELECT COUNT(*) FROM app('other')", True),
        (("web",), ("x",), "SELECT COUNT(*) FROM web JOIN app('other') AS o ON web.a = o.a", False),
        (("web",), ("other",), "SELECT COUNT(*) FROM web JOIN app('other') AS o ON web.a = o.a", True),
        (("web",), (), "SELECT COUNT(*) FROM (SELECT a FROM web UNION ALL SELECT a FROM api) AS t", False),
        (("web",), (), "SELECT COUNT(*) FROM web JOIN api WITHIN 1 HOUR ON web.a = api.a", False),
        (("web", "api"), (), "SELECT COUNT(*) FROM web JOIN api WITHIN 1 HOUR ON web.a = api.a", True),
    ],
)  # fmt: skip
def test_rights_are_for_streams_and_apps(
    streams: tuple[str, ...], apps: tuple[str, ...], text: str, allowed: bool
) -> None:
    access = Access("web-1", (AccessRule(AccessRole.QUERY, users=("1001",), streams=streams, apps=apps),))
    assert (access.refusal(ALICE, needs_of_query(parse(text), all_named)) is None) == allowed


def test_a_plan_needs_rights_over_the_streams_that_its_elements_read() -> None:
    access = Access("web-1", (AccessRule(AccessRole.QUERY, users=("1001",), streams=("web", "web_join_api"), apps=()),))
    catalog = dict.fromkeys(("web", "api"), Schema({}, open=True))
    plan = analyze(parse("SELECT COUNT(*) FROM web JOIN api WITHIN 1 HOUR ON web.a = api.a"), catalog)
    assert "alice may not query web, api" in (access.refusal(ALICE, needs_of_plan(plan, all_named)) or "")


def test_a_right_over_some_apps_is_no_right_over_the_agent() -> None:
    access = Access("web-1", (AccessRule(AccessRole.OPERATE, groups=("elf",), apps=("other",)),))
    assert access.refusal(ALICE, needs_of(control.StopRequest("other"), named)) is None
    refusal = access.refusal(ALICE, needs_of(control.DrainRequest(1.0), named))
    assert refusal == (
        "alice may not end this agent: it needs the right operate over all streams and apps; [[access]] in agent.toml "
        "of agent web-1 grants it (ask root there, or the group elf-admin; docs/rights.md)"
    )
    assert not access.operates(ALICE, JOBS["signed"])


def test_a_refusal_says_whose_the_job_is() -> None:
    access = Access("web-1", (AccessRule(AccessRole.QUERY, groups=("elf",), apps=()),))
    refused = access.refusal(ALICE, needs_of(control.StopRequest("other"), named)) or ""
    assert "alice may not stop other: it is bob@web-2's, which needs the right operate over app other" in refused
    refused = (
        access.refusal(ALICE, [Need(AccessRole.READ, "follow x", jobs=(JobTarget(Id(9), "x", is_known=False),))]) or ""
    )
    assert "this agent knows no job of that name" in refused


@pytest.mark.parametrize(
    ("who", "role"),
    [
        (Principal("root", "root@web-1", frozenset(("root", "0"))), AccessRole.OPERATE),
        (Principal("elf", "elf@web-1", frozenset(("elf", "500"))), AccessRole.OPERATE),
        (Principal("ann", "ann@web-1", frozenset(("ann", "7")), frozenset(("elf-admin",))), AccessRole.OPERATE),
        (ALICE, AccessRole.QUERY),
        (Principal("bob", "bob@web-1", frozenset(("bob", "8")), frozenset(("33",))), AccessRole.QUERY),
        (MARIA, AccessRole.QUERY),
        (Principal("eve", "eve@web-1", frozenset(("eve", "9")), frozenset(("users", "100"))), None),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_what_holds_where_nothing_is_written(who: Principal, role: AccessRole | None) -> None:
    access = Access("web-1", standing_rules(500, 33, ()))
    for wanted in AccessRole:
        is_allowed = role is not None and wanted <= role
        assert (access.refusal(who, [Need(wanted, "act")]) is None) == is_allowed
    sees_others = access.refusal(who, [Need(AccessRole.READ, "act", jobs=(JOBS["other"],))]) is None
    assert sees_others == (role is AccessRole.OPERATE)


def test_what_is_written_replaces_that_but_for_root_and_the_agents_user() -> None:
    access = Access("web-1", standing_rules(500, 33, [AccessRule(AccessRole.READ, users=("dora",))]))
    assert access.refusal(ALICE, [Need(AccessRole.READ, "act")]) is not None
    assert (
        access.refusal(Principal("elf", "", frozenset(("500",))), [Need(AccessRole.OPERATE, "act", everything=True)])
        is None
    )


def test_a_creator_owns_what_the_key_signs_whoever_has_submitted_it() -> None:
    assert MARIA.owns(JOBS["signed"])
    assert not MARIA.owns(JOBS["other"])
    assert not ALICE.owns(JOBS["signed"])
