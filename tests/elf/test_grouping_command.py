"""`elf grouping`: a stage over a log with all groupings, for people and programs."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from elf_process import elf

from agent.grouping import GROUPINGS

KEYS = ["ann", None, "bob", "cem", "dee"]


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """20,000 events, half of them ann's, a quarter without a user."""
    path = tmp_path_factory.mktemp("grouping") / "events.json.gz"
    drawn = np.random.default_rng(5).choice(len(KEYS), 20_000, p=(0.5, 0.25, 0.125, 0.0625, 0.0625))
    lines = (json.dumps({"user": KEYS[key], "at": {"city": number % 3}}) for number, key in enumerate(drawn.tolist()))
    path.write_bytes(gzip.compress("\n".join(lines).encode(), 1))
    return str(path)


def test_people_see_all_groupings_the_hottest_keys_and_which_to_take(skewed: str) -> None:
    found = elf("grouping", skewed, "--key", "user", "--workers", "1,8")
    assert (found.code, found.err) == (0, "")
    lines = [line.split() for line in found.out.splitlines() if line.strip()]
    assert lines[0] == ["20,000", "events", "of", "5", "keys,", "from", "4", "sources"]
    rows = [line for line in lines if len(line) == 7 and line[1] in GROUPINGS]
    assert [(row[0], row[1]) for row in rows] == [(workers, name) for workers in "18" for name in GROUPINGS]
    shares = {line[0]: line[1] for line in lines if line[-1].endswith("%")}
    assert list(shares)[:3] == ["ann", "NULL", "bob"]
    assert 0.48 < float(shares["ann"].rstrip("%")) / 100 < 0.52
    one, eight = found.out.splitlines()[-2:]
    assert one.startswith("1 worker: take fields: it takes 1.00 times as long as an even deal")
    assert eight.startswith("8 workers: take ")
    assert "times the memory of fields, which takes" in eight


def test_programs_get_an_object_for_each_number_of_workers_and_rows_as_csv(skewed: str) -> None:
    asked = ("grouping", skewed, "--key", "user", "--workers", "2,8", "--sources", "3")
    two, eight = elf(*asked, "--output", "json").results
    assert (two["workers"], eight["workers"], eight["sources"], eight["events"], eight["keys"]) == (2, 8, 3, 20_000, 5)
    assert [one["grouping"] for one in eight["groupings"]] == list(GROUPINGS)
    figures = {one["grouping"]: one for one in eight["groupings"]}
    assert figures["shuffle"]["time"] == 1.0
    assert figures["shuffle"]["entries"] == 5 * 8
    assert (figures["fields"]["entries"], figures["fields"]["memory"]) == (5, 1.0)
    assert 3.9 < figures["fields"]["time"] < 6.1
    assert figures["pkg"]["entries"] <= 10
    assert eight["hottest"][1]["key"] == "NULL"
    assert eight["because"].startswith(f"take {eight['take']}: ")
    assert eight["take"] not in ("fields", "pkg")
    rows = list(csv.DictReader(elf(*asked, "--output", "csv").out.splitlines()))
    taken = [(row["workers"], row["grouping"]) for row in rows if row["take"] == "True"]
    assert taken == [("2", two["take"]), ("8", eight["take"])]
    assert float(rows[-1]["time"]) == eight["groupings"][-1]["time"]


def test_a_key_may_have_several_columns_some_in_nested_objects(skewed: str) -> None:
    for keys in (("--key", "user,at.city"), ("--key", "user", "--key", "at.city")):
        (found,) = elf("grouping", skewed, *keys, "--workers", "4", "--output", "json").results
        assert found["keys"] == 15
        assert found["hottest"][0]["key"] in ("ann · 0", "ann · 1", "ann · 2")


def test_standard_input_and_formats_are_read_as_by_local() -> None:
    lines = b"user\tn\n" + b"".join(b"u%d\t%d\n" % (number % 7, number) for number in range(900))
    (found,) = elf(
        "grouping", "-", "--key", "user", "--format", "tsv", "--workers", "2", "--output", "json", stdin=lines
    ).results
    assert (found["events"], found["keys"]) == (900, 7)


def test_few_events_and_malformed_lines_are_told(tmp_path: Path) -> None:
    (tmp_path / "few.json").write_text('{"user": "ann"}\n{"user": "bo\n{"user": 7}\n')
    found = elf("grouping", str(tmp_path / "few.json"), "--key", "user", "--workers", "16")
    assert (found.code, found.err.splitlines()) == (
        0,
        [
            "elf grouping: 1 malformed lines are left out",
            "elf grouping: 2 events are few for 16 workers: the figures are rough",
        ],
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--key", "usr"), ("--key usr: no event has this column", "did you mean user?")),
        (("--key", "user,user"), ("--key user: name each column of the key once",)),
        (("--key", "user", "--workers", "0"), ("0 workers: a stage has 1 to 1,024", "--help")),
        (("--key", "user", "--workers", "16,1025"), ("1,025 workers: a stage has 1 to 1,024",)),
        (("--key", "user", "--workers", "many"), ("'many' is not a number", "16,128")),
        (("--key", "user", "--sources", "0"), ("--sources", "1<=x<=1024")),
        (("--key", ""), ("--key", "no event has this column")),
        ((), ("--key",)),
    ],
)
def test_what_cannot_be_rehearsed_is_one_line_with_the_next_step(
    skewed: str, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    elf("grouping", skewed, *options).refuses(2, *words)


def test_files_without_events_say_so(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "header.csv").write_text("user,city\n")
    for name in ("empty.log", "header.csv"):
        elf("grouping", str(tmp_path / name), "--key", "user").refuses(2, name, "no events", "name a log that has some")
    elf("grouping", "-", "-", "--key", "user").refuses(2, "standard input can be read only once")
    elf("grouping", str(tmp_path / "absent.log"), "--key", "user").refuses(2, "absent.log", "no such file")


def test_a_file_that_breaks_off_is_an_error(tmp_path: Path, skewed: str) -> None:
    whole = Path(skewed).read_bytes()
    (tmp_path / "cut.json.gz").write_bytes(whole[: len(whole) // 2])
    elf("grouping", str(tmp_path / "cut.json.gz"), "--key", "user").refuses(1, "cut.json.gz")
