"""The demo of lending in parts: its servers, its borrowers, its picture, and its truth."""

from __future__ import annotations

import io
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_pipeline import run
from rich.console import Console

import query
from elf.client import Result
from elf.demo.elements.log_writing import LogTime, LogWriter
from elf.demo.lending.borrowers import Borrowers
from elf.demo.lending.lending_board import LendingBoard
from elf.demo.lending.lending_show import AFTER_MS, conclude, last_midnight
from elf.demo.lending.lending_truth import (
    APP,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    OPERATORS,
    SIZES_MS,
    RatedApplication,
    agreement,
    printed,
    read_applications,
)
from elf.demo.shop.fleet import Shop
from elf.errors import ElfError
from elf.jobs import lending

LOANS = {"loans": query.Schema({}, open=True)}
RATES, AREA_INTEREST, AREA_APPROVAL, INTEREST, APPROVAL = OPERATORS


def test_the_demo_knows_the_stages_and_sizes_of_the_job() -> None:
    job = lending.Lending
    assert [one.stage for one in OPERATORS] == [*job.stages, ""]
    for one in OPERATORS:
        plan = query.analyze(query.parse(job.stages.get(one.stage, job.query)), LOANS)
        assert tuple(size.size_ms for size in plan.windowing.sizes) == tuple(one.sizes_ms), one.name
        assert (plan.app is None) == one.reads_logs


# Servers and borrowers.


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(tmp_path / "logs", servers=2, program="elf.demo.lending.lending_site") as running:
        yield running


def ask(shop: Shop, path: str = "/apply", **form: object) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", shop.servers[0].port, timeout=30)
    whole = {
        "user": "ann",
        "area": "Sjælland",
        "date": 86_399_999,
        "amount": 9_000,
        "lendingTime": 365,
        "income": 60_000,
    }
    connection.request("POST", path, urlencode(whole | form))
    response = connection.getresponse()
    answer = (response.status, json.loads(response.read()))
    connection.close()
    return answer


def logged(shop: Shop) -> list[list[dict[str, Any]]]:
    shop.stop()
    return [[json.loads(line) for line in one.event_log.read_text().splitlines()] for one in shop.servers]


def test_an_application_is_answered_and_logged_with_the_fields_of_the_paper(shop: Shop) -> None:
    assert ask(shop) == (200, {"approval": True, "return": 9_585})
    assert ask(shop, amount=50_000) == (200, {"approval": False, "return": 57_350})
    assert ask(shop, lendingTime=0) == (200, {"approval": False, "return": 9_000})
    lines = logged(shop)[0]
    assert lines[0] == {
        "user": "ann", "area": "Sjælland", "date": "1970-01-01T23:59:59.999Z", "approval": True, "amount": 9_000,
        "return": 9_585, "lendingTime": 365, "income": 60_000,
    }  # fmt: skip
    assert [line["approval"] for line in lines] == [True, False, False]


def test_what_is_no_application_is_refused_and_not_logged(shop: Shop) -> None:
    forms: list[dict[str, object]] = [
        {"area": "Erewhon"}, {"amount": -1}, {"amount": "much"}, {"income": 0}, {"date": 1 << 60},
        {"user": "x" * 2_000}, {f"more{n}": n for n in range(9)}, {"path": "/offer"},
    ]  # fmt: skip
    for form in forms:
        status, answer = ask(shop, **form)  # type: ignore[arg-type]
        assert (status, list(answer)) == (400, ["error"]), form
    assert logged(shop) == [[], []]


def test_each_servers_log_has_the_applications_in_the_order_of_their_dates(shop: Shop) -> None:
    borrowers = Borrowers([server.port for server in shop.servers], random.Random(3))
    log_time = LogTime(DAY_MS, 40_000.0)
    with LogWriter((), 400.0, borrowers.apply, log_time) as writer:
        while writer.lines < 300:
            writer.check()
    borrowers.close()
    logs = logged(shop)
    assert sum(map(len, logs)) == writer.lines
    assert min(map(len, logs)) > 50
    for lines in logs:
        assert [line["date"] for line in lines] == sorted(line["date"] for line in lines)
        assert 0 < sum(line["approval"] for line in lines) < len(lines)
    assert any(line["lendingTime"] == 0 for lines in logs for line in lines)


def test_a_server_that_has_gone_is_told_of(shop: Shop) -> None:
    borrowers = Borrowers([server.port for server in shop.servers], random.Random(3))
    borrowers.apply([DAY_MS], DAY_MS, ())
    shop.stop()
    with pytest.raises(OSError, match="refused"):
        borrowers.apply([DAY_MS + 1] * 2, DAY_MS, ())


@given(st.integers(DAY_MS, 4_000_000_000_000))
def test_what_borrowers_date_is_of_the_past_the_end_of_the_day_too(now_ms: int) -> None:
    midnight_ms = last_midnight(now_ms)
    assert midnight_ms % DAY_MS == 0
    assert 2 * AFTER_MS < now_ms - midnight_ms < DAY_MS + 4 * AFTER_MS


# Truth.

LINES = st.lists(
    st.fixed_dictionaries(
        {
            "at_ms": st.integers(0, 2 * HOUR_MS),
            "user": st.sampled_from(["ann", "bob"]),
            "area": st.sampled_from(["Als", "Sjælland"]),
            "approval": st.booleans(),
            "amount": st.one_of(st.sampled_from([0, 365, 7_300]), st.integers(0, 10**6)),
            "return": st.integers(0, 2 * 10**6),
            "lendingTime": st.sampled_from([0, 1, 90, 365, 730]),
            "income": st.integers(1, 10**6),
        }
    ),
    max_size=12,
)


def written(lines: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Two logs, each with every other line, in no order."""
    logs = [folder / "one.json", folder / "two.json"]
    for number, log in enumerate(logs):
        log.write_text("".join(f"{json.dumps(dated(line))}\n" for line in lines[number::2]))
    return logs


def dated(line: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in line.items() if name != "at_ms"}
    return {**fields, "date": f"1970-01-01T{line['at_ms'] // HOUR_MS:02}:{line['at_ms'] // MINUTE_MS % 60:02}:00Z"}


@settings(max_examples=30)
@given(LINES)
def test_the_rate_of_each_application_is_that_of_the_jobs_first_operator(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]
) -> None:
    """The truth computes rates in plain Python: they are those of ELF QL to the last digit, halves too."""
    applications = read_applications(written(lines, tmp_path_factory.mktemp("logs")))
    events = [{**dated(line), "@time": line["at_ms"] // MINUTE_MS * MINUTE_MS} for line in lines]
    rows = run(lending.Lending.stages["rates"], events, LOANS)
    found = sorted((row["date"], row["user"], row["area"], row["approval"], row["rate"]) for row in rows)
    assert found == sorted((one.date, one.user, one.area, one.approval, one.rate) for one in applications)


def model(applications: Sequence[RatedApplication], size_ms: int) -> dict[int, dict[str, Any]]:
    """Sums of each window by its start, one application at a time."""
    windows: dict[int, dict[str, Any]] = defaultdict(lambda: {"all": 0, "approved": 0, "rate": 0})
    for one in applications:
        window = windows[one.at_ms // size_ms * size_ms]
        window["all"] += 1
        if one.approval:
            window["approved"] += 1
            window["rate"] += one.rate
    return windows


def text(at_ms: int) -> str:
    return f"1970-01-{1 + at_ms // DAY_MS:02}T{at_ms % DAY_MS // HOUR_MS:02}:{at_ms // MINUTE_MS % 60:02}:00Z"


def window(start_ms: int, size_ms: int, rows: list[dict[str, Any]]) -> Result:
    return Result(
        app=APP, window_start=text(start_ms), window_end=text(start_ms + size_ms), rows=rows, contributors=4,
        expected=4, missing=[], partial=[], leaped=0, events=1, late=0, malformed=0, coerced=0, dropped=0, other=None,
        limited={}, error=None, version=1, epoch=1,
    )  # fmt: skip


def interest_windows(applications: Sequence[RatedApplication]) -> list[Result]:
    """The windows that the fourth operator should have."""
    return [
        window(start_ms, size_ms, [{"rate": printed(sums["rate"], sums["approved"]), "loans": sums["approved"]}])
        for size_ms in SIZES_MS
        for start_ms, sums in model(applications, size_ms).items()
        if sums["approved"]
    ]


@settings(max_examples=30)
@given(LINES, st.data())
def test_windows_agree_if_they_are_all_there_once_and_right(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]], data: st.DataObject
) -> None:
    applications = read_applications(written(lines, tmp_path_factory.mktemp("logs")))
    windows = interest_windows(applications)
    found = agreement(INTEREST, windows, applications, DAY_MS)
    assert (found.same, found.windows, found.wrong) == (len(windows), len(windows), ())
    shares = [
        window(start_ms, size_ms, [{"share": printed(sums["approved"], sums["all"]), "applications": sums["all"]}])
        for size_ms in SIZES_MS
        for start_ms, sums in model(applications, size_ms).items()
    ]
    assert agreement(APPROVAL, shares, applications, DAY_MS).wrong == ()
    if windows:
        place = data.draw(st.integers(0, len(windows) - 1))
        lacking = agreement(INTEREST, windows[:place] + windows[place + 1 :], applications, DAY_MS)
        assert (lacking.same, lacking.windows, len(lacking.wrong)) == (len(windows) - 1, len(windows), 1)
        assert lacking.wrong[0].endswith(" has not come")
        [twice] = agreement(INTEREST, [*windows, windows[place]], applications, DAY_MS).wrong
        assert twice.endswith(" has come twice")
        windows[place].rows[0]["loans"] += 1
        [other] = agreement(INTEREST, windows, applications, DAY_MS).wrong
        assert " in the logs {" in other


def test_windows_that_end_later_need_not_be_there_but_have_to_be_right(tmp_path: Path) -> None:
    line = {"at_ms": 5 * MINUTE_MS, "user": "ann", "area": "Als", "approval": True, "amount": 100, "return": 110,
            "lendingTime": 365, "income": 1_000}  # fmt: skip
    applications = read_applications(written([line, line | {"at_ms": 65 * MINUTE_MS}], tmp_path))
    early = [one for one in interest_windows(applications) if one.window_end and one.window_end <= text(HOUR_MS)]
    assert agreement(INTEREST, early, applications, HOUR_MS).wrong == ()
    assert len(agreement(INTEREST, early, applications, DAY_MS).wrong) == 5
    wrong = window(HOUR_MS, 10 * MINUTE_MS, [{"rate": 1, "loans": 1}])
    [told] = agreement(INTEREST, [*early, wrong], applications, HOUR_MS).wrong
    assert told.startswith("10 min to 1970-01-01 01:10 has {'rate': 1, ")
    nobody = window(30 * MINUTE_MS, 10 * MINUTE_MS, [{"rate": 1, "loans": 1}])
    assert agreement(INTEREST, [*early, nobody], applications, HOUR_MS).wrong == (
        "10 min to 1970-01-01 00:40 has 1 rows, none in the logs",
    )
    assert agreement(INTEREST, [*early, window(30 * MINUTE_MS, 10 * MINUTE_MS, [])], applications, HOUR_MS).wrong == ()


def test_no_window_is_no_agreement() -> None:
    assert [agreement(one, [], [], DAY_MS).windows for one in OPERATORS] == [0] * 5


def test_the_demo_ends_with_an_error_that_names_who_differs(tmp_path: Path) -> None:
    line = {"at_ms": 0, "user": "ann", "area": "Als", "approval": True, "amount": 100, "return": 110,
            "lendingTime": 365, "income": 1_000}  # fmt: skip
    logs = written([line], tmp_path)
    windows = {one.name: [] for one in OPERATORS} | {INTEREST.name: interest_windows(read_applications(logs))}
    performance: Any = SimpleNamespace(windows=windows, upto_ms=DAY_MS, merged=(220, 576))
    console = Console(file=io.StringIO(), width=200, highlight=False)
    with pytest.raises(ElfError, match="the windows of op1, op2, op3, op5 are not what the logs hold"):
        conclude(console, performance, logs)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "✓ 5 of 5 windows of op4 (interest, interest of all loans) agree" in shown
    assert "✗ 0 of 1 windows of op1" in shown
    assert "      24 h to 1970-01-02 00:00 has not come" in shown


# The picture.


def test_the_picture_has_areas_and_sizes_and_fits_a_small_terminal() -> None:
    board = LendingBoard(45, 1_234, 31.0, DAY_MS)
    areas = ["Als", "Fyn", "Jylland", "Bornholm", "Lolland", "Sj\x1bælland"]
    interest = [{"area": one, "rate": 712.5, "income": 40_123.4, "loans": 3, "rates": 9} for one in areas[1:]]
    approval = [{"area": one, "share": 0.25, "applications": 1_000, "approved": 250} for one in areas]
    board.add(AREA_INTEREST.name, window(0, HOUR_MS, interest))
    board.add(AREA_APPROVAL.name, window(0, HOUR_MS, approval))
    board.add(INTEREST.name, window(0, DAY_MS, [{"rate": 699, "loans": 12}]))
    board.add(APPROVAL.name, window(0, DAY_MS, [{"share": 0.5, "applications": 99}]))
    board.timeline = [(float(n), f"thing {n}") for n in range(20)]
    console = Console(file=io.StringIO(), width=110, highlight=False)
    console.print(board.render())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(shown.rstrip("\n").split("\n")) <= 23
    assert "\x1b" not in shown
    for words in ("00:31 of 00:45", "in the logs it is 1970-01-02 00:00", "1,234 applications", "7.12 %", "25.00 %",
                  "24 h", "6.99 %", "50.00 %", "01-02 00:00", "op5 approval 1", "00:19  thing 19"):  # fmt: skip
        assert words in shown, shown
