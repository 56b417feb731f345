"""`elf local` with aggregates that are approximate or limited: what a person and a program are told."""

from __future__ import annotations

import json

import pytest
from elf_process import elf, local

USERS = 70_000
QUERY = (
    "SELECT path, COUNT(DISTINCT user) AS users, COLLECT(user, 2) AS firsts, COLLECT_SET(path) AS paths FROM logs "
    "GROUP BY path HAVING COUNT(*) FILTER (WHERE user >= 0) > 0 ORDER BY path NULLS FIRST"
)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A path that 70,000 users visit, one that 3 do, and one that nobody does."""
    folder = tmp_path_factory.mktemp("visits")
    events = [{"ts": 1767323045 + n // 1000, "path": "/many", "user": n} for n in range(USERS)]
    events += [{"ts": 1767323045 + n, "path": "/few", "user": n} for n in range(3)]
    events += [{"ts": 1767323045, "user": 1}, {"ts": 1767323045, "path": "/none"}]
    paths = [folder / f"{number}.json" for number in range(2)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"{json.dumps(event)}\n" for event in events[number::2]))
    return list(map(str, paths))


def test_a_result_says_where_values_were_left_out(visits: list[str]) -> None:
    (one,) = local(QUERY, *visits).results
    (seven,) = local(QUERY, "--agents", "7", *visits).results
    assert one["rows"] == seven["rows"]
    assert [row["path"] for row in one["rows"]] == [None, "/few", "/many"]
    nobody, few, many = one["rows"]
    assert (nobody["users"], few["users"], few["paths"]) == (1, 3, '["/few"]')
    assert nobody["paths"] is None
    assert many["users"] != USERS
    assert abs(many["users"] / USERS - 1) < 0.0101
    assert (few["firsts"], many["firsts"]) == ("[0,1]", "[0,1]")
    assert one["limited"] == seven["limited"] == {"COUNT(DISTINCT user)": 1, "COLLECT(user, 2)": 2}
    assert one["error"] == 0.0101


def test_people_are_told_below_the_table_and_beside_the_csv(visits: list[str]) -> None:
    told = ["COUNT(DISTINCT user) met its limit in 1 group", "COLLECT(user, 2) met its limit in 2 groups"]
    table = elf("local", QUERY, *visits).out.splitlines()
    assert set(told) <= set(table)
    assert table[-1].endswith("approximate, within 1 %")
    assert elf("local", "--output", "csv", QUERY, *visits).err.splitlines() == told


def test_sketches_say_their_error_and_exact_results_none(visits: list[str]) -> None:
    approximate = "SELECT APPROX_COUNT_DISTINCT(user) AS users, APPROX_QUANTILE(user, 0.9) AS q FROM logs"
    (result,) = local(approximate, "--agents", "3", *visits).results
    assert result["error"] == 0.0419
    assert abs(result["rows"][0]["users"] / USERS - 1) < result["error"]
    assert abs(result["rows"][0]["q"] / USERS - 0.9) < 0.0134
    (exact,) = local("SELECT COUNT(*), COUNT(DISTINCT path) FROM logs", *visits).results
    assert (exact["error"], exact["limited"]) == (None, {})
