"""Which windows are equal offline, which differences are explained and by what, and which are faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from live_world import BORN_MS, COUNT, Logs, published, shop_logs, version

import query
from elf.batch.reconcile.live_results import read_log, read_printed
from elf.batch.reconcile.reconciliation import reconcile, why_not_computable
from elf.batch.reconcile.same_rows import difference
from elf.batch.reconcile.verdicts import ArchivedSpan

Change = Callable[[dict[str, Any]], object]


def verdicts(lines: list[bytes], archive: Logs) -> list[tuple[str, str]]:
    judged = reconcile(read_log(lines, "shop"), archive)
    return [(one.verdict, "; ".join(one.reasons) or one.difference or "") for one in judged]


def changed(lines: list[bytes], number: int, change: Change) -> list[bytes]:
    """The lines with another result `number`: it is changed in place."""
    results = [index for index, line in enumerate(lines) if json.loads(line)["kind"] == "result"]
    line = json.loads(lines[results[number]])
    change(line)
    return [json.dumps(line).encode() if index == results[number] else one for index, one in enumerate(lines)]


@pytest.mark.parametrize(
    "text",
    [
        COUNT,
        "SELECT COUNT(*) AS n FROM events WINDOWING 2 SECONDS",
        "SELECT product, AVG(price) AS mean FROM events GROUP BY product WINDOWING 4 SECONDS EVERY 2 SECONDS",
        "SELECT product, price FROM events ORDER BY price DESC LIMIT 3 WINDOWING 1 SECOND",
        "SELECT COUNT(*) AS n FROM events WHERE product = 'a' WINDOWING 5 SECONDS, 1 SECOND",
        "SELECT product, COUNT(*) AS n FROM events GROUP BY product WINDOWING SESSION 1 SECOND",
        "SELECT COUNT(*) AS n FROM events WINDOWING 1 SECOND EMIT CHANGES",
        "SELECT MAX(n) AS most FROM (SELECT product, COUNT(*) AS n FROM events GROUP BY product) WINDOWING 1 SECOND",
    ],
)
def test_what_was_published_of_all_events_is_equal(text: str) -> None:
    logs = shop_logs()
    found = verdicts(published(version(text), logs), Logs(logs))
    assert len(found) >= 5
    assert set(found) == {("equal", "")}


def test_agents_that_are_missing_are_left_out_and_named() -> None:
    logs = shop_logs()
    archive = Logs(logs)
    found = verdicts(published(version(), logs, absent=["agent-2"]), archive)
    assert set(found) == {("explained", "missing: agent-2; equal without them")}
    assert archive.asked == [frozenset({"agent-1", "agent-3"})]


def test_agents_that_are_missing_from_some_windows_are_left_out_of_these() -> None:
    logs = shop_logs()
    whole, parts = published(version(), logs), published(version(), logs, absent=["agent-3"])
    lines = [*whole[:5], *parts[5:8], *whole[8:]]
    assert Counter(verdict for verdict, _ in verdicts(lines, Logs(logs))) == {"equal": 7, "explained": 3}


@pytest.mark.parametrize(
    ("given", "said"), [({"lost": [3, 9]}, "logical nodes begun anew: 2"), ({"evicted": 5}, "elements evicted: 5")]
)
def test_what_elements_have_given_up_explains_a_difference(given: dict[str, object], said: str) -> None:
    logs = shop_logs()
    lines = changed(published(version(), logs), 2, lambda line: line["rows"][0].update(n=line["rows"][0]["n"] + 1))
    assert [verdict for verdict, _ in verdicts(lines, Logs(logs))].count("unexplained") == 1
    lines = changed(lines, 2, lambda line: line.update(given))
    assert verdicts(lines, Logs(logs))[2] == ("explained", said)
    assert set(verdicts(changed(published(version(), logs), 2, lambda line: line.update(given)), Logs(logs))) == {
        ("equal", "")
    }


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda line: line["rows"][0].update(n=line["rows"][0]["n"] + 1),
        lambda line: line["rows"][-1].update(paid=line["rows"][-1]["paid"] * (1 + 1e-6)),
        lambda line: line["rows"][0].update(product="z"),
        lambda line: line["rows"].pop(),
        lambda line: line["rows"].append(line["rows"][0]),
        lambda line: line.update(events=line["events"] + 1),
        lambda line: line.update(events=line["events"] - 1),
        lambda line: line.update(rows=[]),
    ],
)
@pytest.mark.parametrize("absent", [(), ("agent-1",)])
def test_a_corrupted_result_is_never_explained(corrupt: Change, absent: tuple[str, ...]) -> None:
    logs = shop_logs()
    found = verdicts(changed(published(version(), logs, absent), 4, corrupt), Logs(logs))
    assert [verdict for verdict, _ in found].count("unexplained") == 1
    assert found[4][0] == "unexplained"


def test_sums_may_differ_by_the_order_of_additions() -> None:
    logs = shop_logs()
    lines = changed(
        published(version(), logs), 4, lambda line: line["rows"][0].update(paid=line["rows"][0]["paid"] * (1 + 1e-12))
    )
    assert set(verdicts(lines, Logs(logs))) == {("equal", "")}


def test_late_events_have_to_be_counted_late() -> None:
    logs = shop_logs()
    lines = published(version(), logs)
    late = {"time": BORN_MS + 3500, "product": "a", "price": 1.0}
    logs["agent-1"] += [late, late]
    assert verdicts(lines, Logs(logs))[3][0] == "unexplained"
    assert verdicts(changed(lines, 7, lambda line: line.update(late=1)), Logs(logs))[3][0] == "unexplained"
    assert verdicts(changed(lines, 1, lambda line: line.update(late=2)), Logs(logs))[3][0] == "unexplained"
    found = verdicts(changed(lines, 7, lambda line: line.update(late=2)), Logs(logs))
    assert found[3] == ("explained", "late events: 2")
    assert Counter(verdict for verdict, _ in found) == {"equal": 9, "explained": 1}


def test_who_is_there_in_part_counts_between_nothing_and_all() -> None:
    logs = shop_logs()
    parts = {name: log[: len(log) // 2] if name == "agent-1" else log for name, log in logs.items()}
    named = [
        json.dumps(json.loads(line) | {"partial": ["agent-1"]}).encode() if b'"result"' in line else line
        for line in published(version(), parts)
    ]
    found = verdicts(named, Logs(logs))
    assert ("explained", "in it with a part of their events: agent-1") in found
    assert {verdict for verdict, _ in found} == {"equal", "explained"}


def test_what_the_archive_does_not_have_yet_is_no_fault() -> None:
    logs = shop_logs()
    lines = published(version(), logs)
    assert set(verdicts(lines, Logs({name: logs[name] for name in ("agent-1", "agent-2")}))) == {
        ("explained", "no archive of: agent-3")
    }
    short = {name: [event for event in log if event["time"] < BORN_MS + 7500] for name, log in logs.items()}
    found = verdicts(lines, Logs(short, ArchivedSpan(0, BORN_MS + 7499)))
    assert {verdict for verdict, _ in found[:7]} == {"equal"}
    assert set(found[7:]) == {("explained", "not archived up to its end yet: agent-1, agent-2, agent-3")}
    later = {name: [event for event in log if event["time"] >= BORN_MS + 2500] for name, log in logs.items()}
    found = verdicts(lines, Logs(later, ArchivedSpan(BORN_MS + 2500, BORN_MS * 2)))
    assert set(found[:3]) == {("explained", "not archived from its start on: agent-1, agent-2, agent-3")}
    assert {verdict for verdict, _ in found[3:]} == {"equal"}


def test_lines_that_were_deleted_too_early_are_named() -> None:
    logs = shop_logs()
    lines = published(version(), logs)
    lost = sum(event["time"] < BORN_MS + 1000 for event in logs["agent-2"])
    logs["agent-2"] = [event for event in logs["agent-2"] if event["time"] >= BORN_MS + 1000]
    whole = ArchivedSpan(0, BORN_MS * 2)
    reason = "lines were deleted before they were archived: agent-1, agent-2, agent-3"
    assert verdicts(lines, Logs(logs, whole._replace(lost=lost)))[0] == ("explained", reason)
    assert verdicts(lines, Logs(logs, whole))[0][0] == "unexplained"


def test_a_window_that_was_not_published_is_missed() -> None:
    logs = shop_logs()
    lines = published(version(), logs)
    del lines[6]
    assert verdicts(lines, Logs(logs))[4] == ("unexplained", "it was not published")


def test_one_of_which_the_next_result_says_who_lacks_is_explained() -> None:
    logs = shop_logs()
    lines = published(version(), logs)
    window = json.loads(lines[6])
    del lines[6]
    span = {
        "window_start": window["window_start"],
        "window_end": window["window_end"],
        "lacking": 1,
        "missing": ["web-9"],
    }
    lines = changed(lines, 4, lambda line: line.update(unshown=[span]))
    assert verdicts(lines, Logs(logs))[4] == ("explained", "not shown, missing: web-9")


def test_code_that_maps_events_cannot_be_computed_again() -> None:
    logs = shop_logs()
    found = verdicts(published(version(maps=True), logs), Logs(logs))
    assert set(found) == {("unchecked", "the job's code maps events: nothing but itself can compute it")}


def test_aggregates_of_a_jobs_own_code_cannot_be_computed_again() -> None:
    parsed = query.with_aggregates(query.parse("SELECT TOP(a) AS t FROM web WINDOWING 1 MINUTE"), {"TOP": "string"})
    plan = query.analyze(parsed, {"web": query.Schema({}, open=True)}).to_wire()
    assert why_not_computable(version(plan=plan)) == "the job's code computes TOP: nothing but itself can"


@pytest.mark.parametrize(
    "read", ["events JOIN events AS e WITHIN 1 SECOND ON events.product = e.product", "events KEYED BY product"]
)
def test_what_travels_by_key_without_some_agents_is_not_computed_again(read: str) -> None:
    """Which pairs, or events, an agent hosted follows from who was there, which nothing tells later."""
    logs = shop_logs()
    join = version(f"SELECT COUNT(*) AS n FROM {read} WINDOWING 1 SECOND")
    lines = published(version(), logs, absent=["agent-2"])
    described = [
        json.dumps(json.loads(line) | {"plan": join.plan}).encode() if b'"plan"' in line else line for line in lines
    ]
    reason = "it lacks agents, and which events, or pairs, were at them is not known"
    assert set(verdicts(described, Logs(logs))) == {("unchecked", reason)}


def test_elements_of_other_kinds_are_computed_by_the_fleet_alone() -> None:
    logs = shop_logs()
    elements = {"sources": [], "types": [], "elements": [{"name": "Count", "kind": "code", "inputs": []}]}
    lines = [
        json.dumps(json.loads(line) | {"plan": json.loads(line)["plan"] | {"elements": elements}}).encode()
        if b'"plan"' in line
        else line
        for line in published(version(), logs)
    ]
    assert set(verdicts(lines, Logs(logs))) == {("unchecked", "its elements can be computed by the fleet alone")}


def test_each_version_computes_its_own_windows() -> None:
    logs, second = shop_logs(), version("SELECT COUNT(*) AS n FROM events WINDOWING 1 SECOND", 2, starts=BORN_MS + 5000)
    lines = [*published(version(), logs)[:7], *published(second, logs)[:1], *published(second, logs)[7:]]
    assert set(verdicts(lines, Logs(logs))) == {("equal", "")}
    torn = [*lines, b'{"kind":"result","app":"sh', b"\xff\xfe", b"[1]"]
    assert read_log(torn, "shop").torn == 3
    assert set(verdicts(torn, Logs(logs))) == {("equal", "")}
    assert read_log(lines, "elsewhere").results == ()


def test_what_several_masters_have_noted_down_is_judged_once() -> None:
    logs = shop_logs()
    lines = published(version(), logs)
    again = [json.dumps({k: v for k, v in json.loads(line).items() if k != "roster"}).encode() for line in lines[2:]]
    assert verdicts([*again, *lines, *lines], Logs(logs)) == [("equal", "")] * 10


def test_what_a_client_has_printed_can_be_checked() -> None:
    logs = shop_logs()
    lines = published(version(), logs, absent=["agent-3"])
    printed = [
        json.dumps({k: v for k, v in json.loads(line).items() if k not in ("kind", "app_id", "born_ms", "roster")})
        for line in lines[2:]
    ]
    judged = reconcile(read_printed([line.encode() for line in printed], version()), Logs(logs))
    assert {one.verdict for one in judged} == {"explained"}


def test_rows_that_differ_by_rounding_may_change_places() -> None:
    live = [{"a": "x", "m": 1.0}, {"a": "y", "m": 1.0 + 1e-12}]
    assert difference(live, live[::-1]) is None
    assert difference([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}]) == "row 1: a is 1 live, 2 offline"
