"""The demo of keyed elements: its logs, what they hold, and the comparison of results with it."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from elf.client import Result
from elf.demo.elements.adverts import BOT_AD, BOT_QUERY, BOT_SERVES, CLICK_DELAY_MAX_MS, HOUR_MS, AdTraffic
from elf.demo.elements.element_board import ElementBoard, HostRow
from elf.demo.elements.element_plays import ELEMENT_PLAYS, element_play
from elf.demo.elements.log_truth import SEEN_MAX, SEEN_MS, HostKill, click_rates, top_words
from elf.demo.elements.log_writing import LogTime, LogWriter, adverts, quotes


def result(
    rows: list[dict[str, object]], start: str | None = None, end: str | None = None, **changes: object
) -> Result:
    one = Result(
        app="top", window_start=start, window_end=end, rows=rows, contributors=8, expected=8, missing=[], partial=[],
        leaped=0, events=1, late=0, malformed=0, coerced=0, dropped=0, other=None, limited={}, error=None, version=1,
        epoch=1,
    )  # fmt: skip
    return msgspec.structs.replace(one, **changes)


def quoted(tmp_path: Path) -> list[Path]:
    logs = [tmp_path / f"{number}.json" for number in range(3)]
    files = [log.open("ab") for log in logs]
    quotes(5)(range(300), 300, files)
    for file in files:
        file.close()
    return logs


def best_words(logs: list[Path]) -> list[tuple[str, int]]:
    texts = [json.loads(line)["text"] for log in logs for line in log.read_bytes().splitlines()]
    return Counter(word for text in texts for word in text.lower().split()).most_common(10)


def test_the_list_is_that_of_the_logs_or_what_differs_is_named(tmp_path: Path) -> None:
    logs = quoted(tmp_path)
    rows: list[dict[str, object]] = [{"word": word, "n": n} for word, n in best_words(logs)]
    found = top_words([result([]), result(rows)], logs, HostKill())
    assert (found.checked, found.wrong) == (10, ())
    wrong = top_words([result([*rows[:9], {"word": "the", "n": 1}])], logs, HostKill())
    assert wrong.wrong[0].startswith("the: 1 in the list, ")
    assert top_words([result(rows[:9])], logs, HostKill()).wrong[0].startswith("the largest counts in the logs are ")
    assert top_words([result(rows, lost=[4, 9])], logs, HostKill()).given_up == "2 logical nodes begun anew"
    assert top_words([], logs, HostKill()).wrong == ("no list came",)


def traffic_of_hours(hours: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Serves and clicks, as they are written step by step."""
    traffic, serves, clicks = AdTraffic(random.Random(3)), [], []
    for begins_ms in range(0, hours * HOUR_MS, 300_000):
        until_ms = begins_ms + 300_000
        serves += traffic.serves_until(range(begins_ms, until_ms, 10_000), until_ms)
        clicks += traffic.clicks_until(until_ms)
    return [json.loads(line) for line in serves], [json.loads(line) for line in clicks]


def test_clicks_come_after_their_serve_on_another_server_and_within_the_half_hour() -> None:
    serves, clicks = traffic_of_hours(3)
    by_serve = {one["serve"]: one for one in serves}
    assert len(by_serve) == len(serves)
    assert len(clicks) > 50
    assert all(0 < one["time"] - by_serve[one["serve"]]["time"] <= CLICK_DELAY_MAX_MS for one in clicks)
    for lines in (serves, clicks):
        assert [one["time"] for one in lines] == sorted(one["time"] for one in lines)


def test_the_robot_sees_more_than_it_may_within_one_minute_of_each_hour() -> None:
    robot = [one["time"] for one in traffic_of_hours(3)[0] if one["query"] == BOT_QUERY]
    assert len(robot) == 2 * BOT_SERVES
    assert BOT_SERVES > SEEN_MAX
    assert all(times[-1] - times[0] < SEEN_MS for times in (robot[:BOT_SERVES], robot[BOT_SERVES:]))


def test_rates_are_those_of_the_logs_or_what_differs_is_named(tmp_path: Path) -> None:
    logs = tmp_path / "serves.json", tmp_path / "clicks.json"
    served = [(0, "a", "tea", "x"), (10, "b", "tea", "x"), (20, "c", "tea", "y"), (25 * HOUR_MS, "d", "tea", "x")]
    lines = [{"time": at, "serve": one, "query": query, "ad": ad, "user": one} for at, one, query, ad in served]
    lines += [
        {"time": 30, "serve": f"r{n}", "query": BOT_QUERY, "ad": BOT_AD, "user": "bot-0"} for n in range(SEEN_MAX + 9)
    ]
    logs[0].write_text("".join(json.dumps(line) + "\n" for line in sorted(lines, key=lambda line: str(line["time"]))))
    clicked = [(1_000, "a", "x"), (1_800_011, "b", "x"), (1_000, "c", "x")]
    logs[1].write_text("".join(json.dumps({"time": at, "serve": one, "ad": ad}) + "\n" for at, one, ad in clicked))
    rows = [{"query": "tea", "ad": "x", "serves": 2, "ctr": 0.5}, {"query": "tea", "ad": "y", "serves": 1, "ctr": 0.0},
            {"query": BOT_QUERY, "ad": BOT_AD, "serves": SEEN_MAX, "ctr": 0.0}]  # fmt: skip
    bounds = "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"
    found = click_rates([result([]), result(rows, *bounds)], logs, HostKill())
    assert (found.checked, found.wrong, found.notes) == (3, (), ())
    whole = result(rows, *bounds)
    rows = [dict(row) for row in rows]
    rows[0]["ctr"] = 1.0
    found = click_rates([result(rows, *bounds)], logs, HostKill())
    assert found.wrong == ("1970-01-01T01:00:00Z: tea, x: 2 serves, 2 clicked; in the logs 2, 1",)
    rows[0]["serves"] = 1
    later = [{"query": "tea", "ad": "x", "serves": 1, "ctr": 0.0}]
    after = result(later, "1970-01-02T01:00:00Z", "1970-01-02T02:00:00Z", lost=[7])
    lacking = [whole, result(rows, *bounds, lost=[7]), after]
    found = click_rates(lacking, logs, HostKill(shown=1, nodes=4, lost=1, over_ms=2 * HOUR_MS))
    assert found.wrong == ()
    assert "1 of the 1 windows that had come before a host was killed are among them" in found.notes[0]
    assert "differ by at most 3.0 % of the serves, and name what was lost" in found.notes[0]
    assert found.notes[1] == "1 windows after them equal the logs again"


@pytest.mark.parametrize(
    ("lost", "kill", "said"),
    [
        ([7], HostKill(shown=2, nodes=4, lost=1, over_ms=2 * HOUR_MS), "tea, x: 2 serves, 0 clicked"),
        ([], HostKill(shown=0, nodes=4, lost=0, over_ms=2 * HOUR_MS), "tea, x: 2 serves, 0 clicked"),
        ([7], HostKill(shown=0, nodes=4, lost=1, over_ms=-23 * HOUR_MS), "tea, x: 2 serves, 0 clicked"),
        ([7, 8], HostKill(shown=0, nodes=1, lost=2, over_ms=HOUR_MS), "2 logical nodes have begun anew"),
        ([7], HostKill(shown=0, nodes=1, lost=1, over_ms=HOUR_MS), "no window came of the hours after"),
    ],
)  # fmt: skip
def test_only_what_a_killed_host_had_may_lack(tmp_path: Path, lost: list[int], kill: HostKill, said: str) -> None:
    logs = [tmp_path / "serves.json", tmp_path / "clicks.json"]
    logs[0].write_text(json.dumps({"time": 0, "serve": "a", "query": "tea", "ad": "x", "user": "u"}) + "\n")
    logs[1].write_text("")
    row = {"query": "tea", "ad": "x", "serves": 2, "ctr": 0.0}
    one = result([row], "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z", lost=lost)
    assert any(said in line for line in click_rates([one], logs, kill).wrong)


def test_what_was_left_out_at_the_entry_may_lack_if_it_is_counted(tmp_path: Path) -> None:
    logs = [tmp_path / "serves.json", tmp_path / "clicks.json"]
    lines = [{"time": at, "serve": f"s{at}", "query": "tea", "ad": "x", "user": "u"} for at in range(3)]
    logs[0].write_text("".join(json.dumps(line) + "\n" for line in lines))
    logs[1].write_text("")
    row = {"query": "tea", "ad": "x", "serves": 1, "ctr": 0.0}
    one = result([row], "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z", shed=2)
    found = click_rates([one], logs, HostKill())
    assert (found.wrong, found.notes) == (
        (), ("1 windows lack nothing but events left out at the job's entry, which they count",)
    )  # fmt: skip
    less = msgspec.structs.replace(one, shed=1)
    assert len(click_rates([less], logs, HostKill()).wrong) == 1


def test_agents_that_were_too_slow_explain_a_window_but_not_the_one_that_was_killed(tmp_path: Path) -> None:
    logs = [tmp_path / "serves.json", tmp_path / "clicks.json"]
    logs[0].write_text(json.dumps({"time": 0, "serve": "a", "query": "tea", "ad": "x", "user": "u"}) + "\n")
    logs[1].write_text("")
    row = {"query": "tea", "ad": "y", "serves": 1, "ctr": 0.0}
    one = result([row], "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z", missing=["agent-2"])
    assert click_rates([one], logs, HostKill("host-1")).wrong == ()
    assert click_rates([one], logs, HostKill("agent-2")).wrong != ()


def test_no_window_is_no_comparison(tmp_path: Path) -> None:
    logs = [tmp_path / "serves.json", tmp_path / "clicks.json"]
    for log in logs:
        log.touch()
    assert click_rates([], logs, HostKill()).wrong == ("no window came",)


def test_logs_wait_for_results(tmp_path: Path) -> None:
    log_time = LogTime(1_790_000_000_000, 36_000.0)  # ten hours a second
    logs = [tmp_path / "serves.json", tmp_path / "clicks.json"]
    with LogWriter(logs, 200.0, adverts(1), log_time, lead_ms=HOUR_MS) as writer:
        while writer.now_ms < log_time.at(0, 0) + HOUR_MS:
            pass
        stands_at, passed_s = writer.now_ms, writer.passed_s
        assert stands_at < log_time.at(0, 0) + 4 * HOUR_MS
        writer.reached_ms = stands_at
        while writer.now_ms == stands_at:
            pass
        assert writer.passed_s > passed_s


@pytest.mark.parametrize(("write", "servers"), [(quotes, 4), (adverts, 2)])
@pytest.mark.parametrize("log_time", [LogTime(), LogTime(1_790_000_000_000, 4000.0)])
def test_logs_are_written_as_time_passes(tmp_path: Path, write: object, servers: int, log_time: LogTime) -> None:
    logs = [tmp_path / f"shop-{number}" / "log.json" for number in range(servers)]
    with LogWriter(logs, 2000.0, write(1), log_time) as writer:  # type: ignore[operator]
        while writer.lines < 500:
            pass
    times = [[json.loads(line)["time"] for line in log.read_bytes().splitlines()] for log in logs]
    assert all(one == sorted(one) for one in times)
    assert sum(map(len, times)) >= writer.lines >= 500
    if log_time.begins_ms is not None:
        assert 0 <= times[0][0] - log_time.begins_ms < HOUR_MS


def test_the_picture_has_results_and_hosts() -> None:
    play = element_play("top-words")
    assert play is ELEMENT_PLAYS["top_words"]
    hosts = {"agent-1": HostRow(True, nodes=500, elements=120, events_per_s=99.0), "host-1": HostRow(False, "killed")}
    board = ElementBoard(play, 45.0, hosts, window=result([{"word": "th\x1be", "n": 1234}], lost=[1]))
    screen = io.StringIO()
    Console(file=screen, width=110).print(board.render())
    shown = screen.getvalue()
    for text in ("1,234", "th\\x1be", "✗ host-1 (no log)", "● agent-1", "1 logical nodes begun anew"):
        assert text in shown
