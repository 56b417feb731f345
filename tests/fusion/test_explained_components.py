"""EXPLAIN tells the operators and components of queries with sub-queries, and of jobs with stages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elf_process import Finished, elf

from elf.explain import explained_query

OFFERS = """
import elf

class Offers(elf.Job):
    stages = {
        "bought": "SELECT product, COUNT(*) AS n FROM buys GROUP BY product WINDOWING 10 SECONDS",
        "best": "SELECT product, SUM(n) AS n FROM app('bought') GROUP BY product "
                "ORDER BY n DESC LIMIT 2 WINDOWING 10 SECONDS",
    }
    query = (
        "SELECT likes.product AS product, COUNT(*) AS likes FROM likes JOIN app('best') "
        "ON likes.product = best.product GROUP BY likes.product WINDOWING 10 SECONDS"
    )
"""


def test_a_query_without_sub_query_has_no_components_to_tell() -> None:
    text = "SELECT a, COUNT(*) FROM web GROUP BY a"
    explained = explained_query(text, once=True, max_groups=9, beyond_groups="other")
    assert explained.operators == explained.components == []


def test_a_query_with_a_sub_query_tells_them() -> None:
    inner = "SELECT url, COUNT(*) AS n FROM web GROUP BY url"
    text = f"SELECT URL_HOST(url) AS host, MAX(n) FROM ({inner}) WHERE n > 1 GROUP BY host"
    explained = explained_query(text, once=True, max_groups=9, beyond_groups="other")
    assert explained.operators == [
        "map web of web: PA any (stateless, flexible)",
        "compute of map web: PA URL_HOST(url) | url (stateful, flexible)",
        "consolidate of compute: PA URL_HOST(url) | url (stateless, rigid)",
        "merge of consolidate: PA none (stateless, rigid)",
        "map 2 of merge: PA any (stateless, flexible)",
        "compute 2 of map 2: PA URL_HOST(url) (stateful, flexible)",
        "consolidate 2 of compute 2: PA URL_HOST(url) (stateless, rigid)",
    ]
    assert explained.components == [
        "beside every agent: map web, compute",
        "at the owner of url, the master: consolidate",
        "in one partition, at the master: merge, map 2, compute 2, consolidate 2",
        "between them: compute → consolidate",
    ]


def test_the_owners_of_several_trees_hand_their_windows_to_the_master() -> None:
    inner = "SELECT url, COUNT(*) AS n FROM web GROUP BY url"
    text = f"SELECT URL_HOST(url) AS host, SUM(n) FROM ({inner}) GROUP BY host WINDOWING 1 MINUTE TREES 4"
    explained = explained_query(text, once=False, max_groups=9, beyond_groups="other")
    assert explained.operators[-1] == "consolidate 2 of merge: PA URL_HOST(url) (stateless, rigid, merges states)"
    assert explained.components == [
        "beside every agent: map web, compute",
        "at 4 owners of url: consolidate",
        "in one partition, at the master: merge, consolidate 2",
        "between them: compute → consolidate, consolidate → merge",
    ]


def submitted(folder: Path, source: str, *options: str) -> Finished:
    (folder / "job.py").write_text(source)
    return elf("submit", "--explain", *options, "job.py", folder=folder)


def test_a_job_with_stages_tells_those_of_all(tmp_path: Path) -> None:
    told = json.loads(submitted(tmp_path, OFFERS, "--output", "json", "--app", "mine").out)
    assert (told["job"], list(told["stages"])) == ("mine", ["bought", "best"])
    assert told["operators"][4] == (
        "best.consolidate of bought.merge: PA buys.product (stateless, rigid, merges states)"
    )
    assert told["components"] == [
        "beside every agent: map buys, bought.compute, map likes, compute",
        "at the owner of buys.product, the master: bought.consolidate",
        "in one partition, at the master: bought.merge, best.consolidate, best.top, merge",
        "at the owner of likes.product, the master: consolidate",
        "between them: bought.compute → bought.consolidate, best.top → map likes, compute → consolidate",
    ]


def test_lending_has_the_components_of_figure_4() -> None:
    """But for the areas' consolidates: these may be shared among owners of areas."""
    finished = elf("submit", "--explain", "--output", "json", "lending")
    readers = ("map", "compute", "consolidate")
    beside, areas, one, *_ = json.loads(finished.out)["components"]
    assert beside == ("beside every agent: map loans, area_approval.compute, map loans (2), area_interest.compute")
    assert areas == "at the owner of area, the master: area_approval.consolidate, area_interest.consolidate"
    place, _, operators = one.partition(": ")
    assert place == "in one partition, at the master"
    assert set(operators.split(", ")) == {
        "area_approval.merge", "area_interest.merge", "rates.top", *readers, *(f"interest.{name}" for name in readers)
    }  # fmt: skip


STEEP = """
import elf

class Rises(elf.Aggregate):
    lift = lambda self, n: n
    lower = lambda self, every: str(len(every))

class Steep(elf.Job):
    aggregates = {"RISES": Rises}
    stages = {"clicks": "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 10 SECONDS"}
    query = "SELECT product, RISES(n) AS rises FROM app('clicks') GROUP BY product WINDOWING 1 MINUTE"
"""


def test_a_rigid_aggregate_of_the_job_reads_the_rows_of_its_stage(tmp_path: Path) -> None:
    told = json.loads(submitted(tmp_path, STEEP, "--output", "json").out)
    assert told["operators"][-1] == "consolidate of clicks.merge: PA product (stateless, rigid)"
    over_events = submitted(tmp_path, STEEP.replace("FROM app('clicks')", "FROM web"))
    over_events.refuses(2, "RISES has no combine, so it takes all rows of a group in one place")


def test_a_job_of_too_many_operators_is_told_where_they_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("query.fusion.components.OPERATORS_MAX", 7)
    told = json.loads(submitted(tmp_path, OFFERS, "--output", "json").out)
    assert "in one partition, at the master: bought.merge, best.consolidate, best.top, merge" in told["components"]
    assert told["components"][-1] == "not planned: 10 operators, and at most 7 are planned"


def test_for_people_it_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    finished = submitted(tmp_path, OFFERS)
    assert finished.code == 0
    for words in (
        "stage bought",
        "operators",
        "components",
        "at the owner of buys.product, the master: bought.consolidate",
    ):
        assert words in finished.out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("COUNT(*) AS n FROM buys", "COUNT( AS n FROM buys", "stage bought: line 1"),
        ("FROM buys", "FROM app('best')", "stages read each other in a circle: "),
    ],
)
def test_a_job_that_cannot_run_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    submitted(tmp_path, OFFERS.replace(old, new)).refuses(2, said)
