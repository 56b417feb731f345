"""The demo of online parameter optimization in parts: its servers, its visitors, its picture, and its truth."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from elf.demo.shop.fleet import Shop
from elf.demo.tuning import offer_site, tuning_truth
from elf.demo.tuning.offer_visitors import OfferVisitors, Taste, VisitCounts
from elf.demo.tuning.tuning_board import TuningBoard
from elf.demo.tuning.tuning_truth import LoggedVisit, read_visits, recount
from elf.jobs import opo
from elf.optimization import Comparator, SliceMeter

SHOWN = {
    "experiment": 7,
    "slices": {"a": {"prominence": 0.4}, "b": {"prominence": 0.6}},
    "best": {"prominence": 0.6},
    "last": {},
}


def test_the_demo_knows_the_numbers_of_the_job() -> None:
    assert (tuning_truth.SLOT_MS, tuning_truth.VISITS_MIN) == (opo.SLOT_MS, opo.VISITS_MIN)
    assert offer_site.SLICES == opo.SLICES
    assert [(one.name, one.low, one.high, one.start) for one in opo.PARAMETERS] == [
        ("prominence", 0, 1, offer_site.START)
    ]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(
        tmp_path / "logs", servers=2, shown=lambda _: tmp_path / "shown", program="elf.demo.tuning.offer_site"
    ) as running:
        yield running


def ask(shop: Shop, form: str, path: str = "/offer") -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", shop.servers[0].port, timeout=30)
    connection.request("POST", path, form, {"Cookie": "user=5"})
    response = connection.getresponse()
    answer = (response.status, json.loads(response.read()))
    connection.close()
    return answer


def test_visitors_see_what_the_job_shows_and_the_logs_hold_what_became_of_it(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "opo.json").write_text(json.dumps(SHOWN))
    seen: list[VisitCounts] = []
    ports = [server.port for server in shop.servers]
    counts = OfferVisitors(ports, Taste(0.6), rate=300).run(2.0, seen.append)
    shop.stop()
    lines = [json.loads(line) for server in shop.servers for line in server.event_log.read_text().splitlines()]
    assert counts.errors == 0
    assert len(lines) == counts.visits > 100
    assert {(line["slice"], line["prominence"]) for line in lines} == {("a", 0.4), ("b", 0.6), ("rest", 0.6)}
    assert {line["experiment"] for line in lines} == {7}
    clicked = {name: [line["value"] for line in lines if line["slice"] == name] for name in ("a", "b")}
    assert sum(clicked["a"]) / len(clicked["a"]) < sum(clicked["b"]) / len(clicked["b"])
    assert seen


@pytest.mark.parametrize(
    "form",
    ["slice=a&experiment=x&prominence=1&value=1", "slice=z&experiment=1&prominence=1&value=1", "value=2", "\xff",
     "slice=a&experiment=1&prominence=1&value=7", "&".join(f"f{n}=1" for n in range(99))],
)  # fmt: skip
def test_what_tells_of_no_visit_is_not_logged(shop: Shop, form: str) -> None:
    status, offer = ask(shop, form)
    assert (status, offer["experiment"], offer["prominence"]) == (200, 0, offer_site.START)
    shop.stop()
    assert shop.servers[0].event_log.read_text() == ""


def test_other_requests_are_refused(shop: Shop) -> None:
    assert ask(shop, "", "/cart")[0] == 400
    assert ask(shop, "x" * 2_000)[0] == 400


def test_a_visitor_is_dealt_anew_each_second_and_slices_are_alike() -> None:
    dealt = [offer_site.slice_of(str(user), second) for user in range(200) for second in range(20)]
    assert abs(dealt.count("a") / len(dealt) - 0.4) < 0.03
    assert abs(dealt.count("b") / len(dealt) - 0.4) < 0.03


def visits_of(seed: int) -> tuple[list[LoggedVisit], list[dict[str, Any]]]:
    """Visits of some experiments, and the outcomes that the job's own parts find in them."""
    draws = random.Random(seed)
    meters = {name: SliceMeter(slot_ms=opo.SLOT_MS, events_min=opo.VISITS_MIN) for name in opo.SLICES}
    comparator = Comparator()
    visits, outcomes, experiment = [], [], 3
    for at_ms in range(1_000_000, 1_060_000, 4):
        name = draws.choice([*opo.SLICES, "rest"])
        stale = draws.random() < 0.002
        chance = 0.5 if name == "a" else 0.3 if experiment % 2 else 0.49
        visit = LoggedVisit(at_ms, name, experiment - stale, int(draws.random() < chance))
        visits.append(visit)
        slot = meters[name].add(visit.at_ms, visit.experiment, visit.value) if name in meters else None
        outcome = comparator.add(opo.SLICES.index(name), slot) if slot is not None else None
        if outcome is not None:
            outcomes.append(
                {
                    "experiment": outcome.experiment,
                    "slots": outcome.slots,
                    "visits": outcome.events,
                    "difference": outcome.difference,
                }
            )
            experiment += 1
    return visits, outcomes


@pytest.mark.parametrize("seed", range(3))
def test_what_the_job_has_found_is_what_the_logs_hold(seed: int) -> None:
    visits, outcomes = visits_of(seed)
    assert len(outcomes) > 3
    assert recount(visits, outcomes) == tuning_truth.Recount(len(outcomes), 0, ())


def test_what_the_logs_do_not_hold_is_told_of() -> None:
    visits, outcomes = visits_of(1)
    outcomes[0]["difference"] += 0.01
    outcomes[1]["slots"] += 30
    outcomes[2]["visits"] -= 1
    found = recount(visits, outcomes)
    assert (found.same, found.late) == (len(outcomes) - 3, 1)
    assert re.match(r"experiment 3: .* visits differ by \+0.\d+, \+0.\d+ in the logs$", found.wrong[0])
    assert found.wrong[1].startswith(f"experiment 4: {outcomes[1]['slots']} slots and ")


def test_visits_before_the_job_has_said_anything_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "events.json"
    line = {"created_at": "2026-01-01T00:00:00.250Z", "slice": "a", "prominence": 0.2, "value": 1}
    log.write_text("".join(json.dumps({**line, "experiment": number}) + "\n" for number in (0, 4)))
    assert read_visits([log]) == [LoggedVisit(1_767_225_600_250, "a", 4, 1)]


def test_the_picture_fits_a_small_terminal() -> None:
    board = TuningBoard(60, 4, VisitCounts(60, 33.0), SHOWN, 3)
    for second, clicks in ((0, 15), (31, 55)):
        board.counts.by_second[second, "rest"] = [100, clicks]  # type: ignore[union-attr]
    for number in range(12):
        board.outcomes.append({**SHOWN, "experiment": number, "verdict": number % 3 - 1, "slots": 9, "difference": 0.1})
    board.timeline = [(float(n), f"thing {n}") for n in range(20)]
    console = Console(file=io.StringIO(), width=80, highlight=False)
    console.print(board.render())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(text.rstrip("\n").split("\n")) <= 21
    assert "55 of 100 visits click now, 15 did at first  +267 %" in text
    for words in ("00:33 of 01:00", "best so far 0.600", "3 of 4 servers show it", "0.400 is worse than 0.600",
                  "+10.0 of 100", "00:19  thing 19"):  # fmt: skip
        assert words in text, text
