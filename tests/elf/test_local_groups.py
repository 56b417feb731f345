"""`elf local` over more groups than a window keeps: what a person and a program are told of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elf_process import elf, local

from agent.runtime import embedded
from agent.runtime.function.result import OtherGroups
from agent.runtime.reduce.parts import RunLimits
from elf.errors import ElfError
from elf.local import LocalOptions, LocalRun, LocalSource

BY_PATH = "SELECT path, COUNT(*) AS hits, SUM(size) AS bytes FROM logs GROUP BY path ORDER BY hits DESC"


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """700 events of 200 paths, each path's with its own size, in three files."""
    folder = tmp_path_factory.mktemp("visits")
    events = [{"ts": 1767323045 + number % 2 * 60, "path": f"/{number % 200}", "size": number % 200}
              for number in range(700)]  # fmt: skip
    paths = [folder / f"{number}.json" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"{json.dumps(event)}\n" for event in events[number::3]))
    return list(map(str, paths))


def test_rows_and_other_are_all_there_is(visits: list[str]) -> None:
    limited = ("--max-groups", "120")
    (one,) = local(BY_PATH, *limited, *visits).results
    (seven,) = local(BY_PATH, *limited, "--agents", "7", *visits).results
    assert one["rows"] == seven["rows"]
    assert one["other"] == seven["other"]
    other = one["other"]
    assert list(other) == ["kept", "groups", "relative_error", "values"]
    assert other["kept"] == len(one["rows"]) == 120
    assert abs(120 + other["groups"] - 200) <= 200 * other["relative_error"]
    assert sum(row["hits"] for row in one["rows"]) + other["values"]["hits"] == 700
    assert sum(row["bytes"] for row in one["rows"]) + other["values"]["bytes"] == sum(n % 200 for n in range(700))


def test_within_the_limit_nothing_is_other(visits: list[str]) -> None:
    assert [result["other"] for result in local(BY_PATH, "--max-groups", "200", *visits).results] == [None]
    assert [result["other"] for result in local("SELECT COUNT(*) FROM logs", *visits).results] == [None]


def test_people_are_told_below_the_table_and_beside_the_csv(visits: list[str]) -> None:
    top = f"{BY_PATH} LIMIT 3"
    other = local(top, "--max-groups", "120", *visits).results[0]["other"]
    about, values = OtherGroups(**other).about, other["values"]
    told = f"120 groups; about {about} more are together in OTHER: hits {values['hits']}, bytes {values['bytes']:,}"
    assert told in elf("local", top, "--max-groups", "120", *visits).out.splitlines()
    csv = elf("local", "--output", "csv", top, "--max-groups", "120", *visits)
    assert (csv.err, len(csv.out.splitlines())) == (f"{told}\n", 4)
    windowed = elf("local", "--output", "csv", f"{BY_PATH} WINDOWING 1 MINUTE", "--max-groups", "2", *visits)
    first, second = windowed.err.splitlines()
    assert first.startswith("2026-01-02T03:04:00Z: 2 groups; all others are together in OTHER: hits ")
    assert second.startswith("2026-01-02T03:05:00Z: 2 groups; ")


@pytest.mark.parametrize("agents", ["1", "7"])
def test_too_many_groups_can_be_an_error(visits: list[str], agents: str) -> None:
    options = ("--agents", agents, "--beyond-groups", "error")
    assert len(local(BY_PATH, *options, "--max-groups", "200", *visits).rows) == 200
    local(BY_PATH, *options, "--max-groups", "60", *visits).refuses(1, "the 60 it may have", "raise --max-groups")


def test_windows_before_the_one_with_too_many_groups_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text("".join(json.dumps({"ts": ts, "path": f"/{n}"}) + "\n" for ts in range(5) for n in range(ts + 1)))
    query = "SELECT path, COUNT(*) FROM logs GROUP BY path WINDOWING 1 SECOND"
    finished = elf("local", "--output", "json", query, "--max-groups", "3", "--beyond-groups", "error", str(path))
    assert [json.loads(line)["window_start"][-3:] for line in finished.out.splitlines()] == ["00Z", "01Z", "02Z"]
    assert (finished.code, len(finished.err.splitlines())) == (1, 1)
    assert "the window from 1970-01-01T00:00:03Z has more groups than the 3 it may have" in finished.err


@pytest.mark.parametrize("options", [("--max-groups", "0"), ("--max-groups", "-5"), ("--max-groups", "many"),
                                     ("--max-groups", "1000000000"), ("--beyond-groups", "drop")])  # fmt: skip
@pytest.mark.parametrize("command", [("local", "SELECT a FROM logs GROUP BY a", "-"), ("query", "SELECT a GROUP BY a")])
def test_nonsense_is_refused_before_anything_is_read(command: tuple[str, ...], options: tuple[str, str]) -> None:
    elf(*command, *options).refuses(2, *options)


DISTINCT = "SELECT COUNT(DISTINCT path) AS paths, SUM(size) AS bytes FROM logs"


def test_what_no_message_could_hold_is_counted_all_the_same(visits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = local(DISTINCT, *visits).results
    monkeypatch.setattr(embedded, "LIMITS", RunLimits(whole_bytes=10, part_bytes=100))
    (found,) = local(DISTINCT, "--agents", "3", *visits).results
    assert found["rows"] == expected["rows"] == [{"paths": 200, "bytes": sum(n % 200 for n in range(700))}]


def test_parts_that_nobody_can_read_are_no_silent_end(visits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LIMITS", RunLimits(frame_bytes=100))
    finished = elf("local", DISTINCT, "--agents", "3", *visits)
    assert finished.code == 1
    assert "this is not the whole answer: " in finished.err
    assert "--agents 1" in finished.err


def test_an_agent_that_cannot_pass_its_part_on_makes_it_an_error(
    visits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LIMITS", RunLimits(run_bytes=1000))
    run = LocalRun(BY_PATH, [LocalSource("logs", tuple(visits))], LocalOptions(arrival_ms=0, agents=2))
    with pytest.raises(ElfError, match=r"not the whole answer: agent-\d: run too large: .* bytes, the limit is"):
        list(run.results())
    with pytest.raises(ElfError, match="ask for fewer groups"):
        list(LocalRun(BY_PATH, [LocalSource("logs", tuple(visits))], LocalOptions(0, agents=2)).results())


def test_one_agent_has_nobody_to_pass_it_on_to(visits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LIMITS", RunLimits(run_bytes=1000))
    (result,) = LocalRun(BY_PATH, [LocalSource("logs", tuple(visits))], LocalOptions(arrival_ms=0)).results()
    assert (len(result.rows), result.reasons) == (200, {})
