"""`elf local --job`: jobs with keyed elements that come with ELF, over files, with their code."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from pathlib import Path

import elf_process
import pytest
from seeds import seeds

WORDS = ("to", "be", "or", "not", "that", "is", "the", "question", "of", "a", "mind")
BEGIN_MS = 1_700_000_000_000


def logged(path: Path, events: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def answered(*arguments: str) -> str:
    finished = elf_process.elf("local", *arguments, "--output", "csv")
    assert finished.code == 0, finished.err
    return finished.out


def test_top_words_over_a_file_are_those_that_are_in_it(tmp_path):
    chance, counts, quotes = random.Random(1), Counter[str](), []
    for number in range(500):
        text = chance.choices(WORDS, range(len(WORDS), 0, -1), k=6)
        counts.update(text)
        quotes.append({"time": BEGIN_MS + 5 * number, "text": " ".join(text)})
    out = answered("--job", "top-words", "--source", f"quotes={logged(tmp_path / 'quotes.json', quotes)}")
    rows = list(csv.DictReader(io.StringIO(out)))
    last = [row for row in rows if row["window_start"] == rows[-1]["window_start"]]
    assert {row["word"]: int(row["n"]) for row in last} == dict(counts.most_common(10))


@pytest.mark.slow
def test_the_click_through_rate_is_printed_the_same_by_one_agent_and_by_eight(tmp_path):
    chance = random.Random(2)
    serves = [
        {
            "time": BEGIN_MS + 900 * number, "serve": f"s{number}", "query": f"q{chance.randrange(3)}",
            "ad": f"ad{chance.randrange(2)}", "user": f"u{chance.randrange(50)}",
        }
        for number in range(1_000)
    ]  # fmt: skip
    clicked = sorted(chance.sample(range(1_000), 200))
    clicks = [
        {"time": BEGIN_MS + 900 * number + 1_000, "serve": f"s{number}", "ad": serves[number]["ad"]}
        for number in clicked
    ]
    files = [f"serves={logged(tmp_path / 's.json', serves)}", f"clicks={logged(tmp_path / 'c.json', clicks)}"]
    sources = [word for file in files for word in ("--source", file)]
    alone = answered("--job", "ctr", *sources, "--agents", "1")
    assert answered("--job", "ctr", *sources, "--agents", "8") == alone
    rows = list(csv.DictReader(io.StringIO(alone)))
    first = [row for row in rows if row["window_start"] == rows[0]["window_start"]]
    assert sum(int(row["serves"]) for row in first) == 1_000, "nobody looks at more than 30 in a minute"
    assert sum(int(row["serves"]) * float(row["ctr"]) for row in first) == pytest.approx(200)


STAGED = """
import elf

Quote = elf.source("SELECT text FROM quotes")


@elf.event
class Word:
    word: str


class Split(elf.PE):
    keys = {Quote: None}

    def process_event(self, quote):
        for word in quote.text.split():
            self.emit(Word(word))


Counted = elf.aggregate(Word, key="word", value="COUNT(*) AS n")


class Staged(elf.Job):
    elements = [Split, Counted]
    stages = {
        "longest": "SELECT word, MAX(n) AS n FROM Counted GROUP BY word ORDER BY n DESC LIMIT 1 WINDOWING 10 SECONDS",
        "quotes": "SELECT COUNT(*) AS n FROM quotes WINDOWING 10 SECONDS",
        "again": "SELECT SUM(n) AS n FROM app('longest') WINDOWING 10 SECONDS",
    }
    query = "SELECT COUNT(*) AS n FROM Word WINDOWING 10 SECONDS"
"""


@pytest.mark.parametrize("agents", ["1", "3"])
def test_stages_over_types_and_over_logs_are_shown_one_by_one(tmp_path, agents):
    quotes = [{"time": BEGIN_MS, "text": "to err"}, {"time": BEGIN_MS + 1, "text": "to be or not to be"}]
    (tmp_path / "job.py").write_text(STAGED)
    job = ("--job", str(tmp_path / "job.py"), "--source", f"quotes={logged(tmp_path / 'q.json', quotes)}")
    job = (*job, "--agents", agents)
    shown = {stage: answered(*job, "--stage", stage) for stage in ("longest", "quotes")} | {"": answered(*job)}
    assert {stage: [row["n"] for row in csv.DictReader(io.StringIO(out))] for stage, out in shown.items()} == {
        "longest": ["3"],
        "quotes": ["2"],
        "": ["8"],
    }
    if agents == "1":
        refused = elf_process.elf("local", *job, "--stage", "again")
        refused.refuses(2, "elf local computes those over types and streams")
        elf_process.elf("local", *job, "--stage", "no").refuses(2, "its stages are longest, quotes, again")
        elf_process.elf("local", "--stage", "no", "SELECT 1 FROM logs").refuses(2, "name its file with --job")


MISFITS = """
import elf

Line = elf.source("SELECT text, SUM_OF AS n FROM lines WHERE SUM_OF > -1")


@elf.event
class Number:
    n: int


class Take(elf.PE):
    keys = {Line: None}

    def process_event(self, line):
        self.emit(Number(len(line.text) if line.n < 3 else "three"))


class Misfits(elf.Job):
    elements = [Take]
    query = "SELECT COUNT(*) AS n, COUNT(n) AS fit FROM Number"
""".replace("SUM_OF", "ROUND(value)")


@pytest.mark.parametrize("agents", ["1", "2"])
def test_what_does_not_fit_in_logs_and_in_emitted_events_is_counted_and_code_that_raises_is_told(tmp_path, agents):
    lines = [{"text": "a", "value": 1}, {"text": "b", "value": "no number"}, {"text": None, "value": 2}]
    lines += [{"text": "four", "value": value} for value in (1, 7, 8)]
    log = tmp_path / "lines.json"
    logged(log, lines)
    log.write_text(log.read_text() + "no JSON\n")
    (tmp_path / "job.py").write_text(MISFITS)
    job = ("--job", str(tmp_path / "job.py"), "--source", f"lines={log}", "--agents", agents)
    finished = elf_process.elf("local", *job, "--output", "json")
    assert finished.code == 0, finished.err
    (result,) = map(json.loads, finished.out.splitlines())
    assert result["rows"] == [{"n": 4, "fit": 2}]
    assert (result["coerced"], result["malformed"], result["failed"]) == (3, 1, 1)
    assert (
        "Take: TypeError: object of type 'NoneType' has no len() (job.py:16): an event is passed over" in finished.err
    )


VALUES = "COUNT(*) AS n, SUM(price) AS total, MAX(price) AS most, SUM(LENGTH(note)) AS letters, COUNT(note) AS notes"
SALES = f"""
import elf

Sale = elf.source("SELECT shop, price, note FROM sales")
Now = elf.aggregate(Sale, key="shop", value="{VALUES}")
Hourly = elf.aggregate(Sale, key="shop", value="{VALUES}, MIN(note) AS first, MAX(note) AS last", window="1 HOUR")


class Sales(elf.Job):
    elements = [Now, Hourly]
    stages = {{
        "elements": \"\"\"SELECT shop, MAX(n) AS n, MAX(total) AS total, MAX(most) AS most, MAX(letters) AS letters,
            MAX(notes) AS notes, MIN(first) AS first, MAX(last) AS last
            FROM Hourly GROUP BY shop WINDOWING 1 HOUR\"\"\",
        "logs": \"\"\"SELECT shop, {VALUES}, MIN(note) AS first, MAX(note) AS last FROM sales GROUP BY shop
            WINDOWING 1 HOUR\"\"\",
        "all": "SELECT shop, {VALUES} FROM sales GROUP BY shop WINDOWING 30 DAYS",
    }}
    query = \"\"\"SELECT shop, MAX(n) AS n, MAX(total) AS total, MAX(most) AS most, MAX(letters) AS letters,
        MAX(notes) AS notes FROM Now GROUP BY shop WINDOWING 30 DAYS\"\"\"
"""


@pytest.mark.parametrize("agents", seeds("3", slow=["1"]))
def test_declared_aggregates_of_values_of_all_types_are_those_of_a_query_over_the_logs(tmp_path, agents):
    chance = random.Random(7)
    values = [1, 2, 0.5, 3, "7", "b", 'say "x"', True, None, 7]
    sales = [
        {"time": BEGIN_MS + number * 60_000, "shop": chance.choice(["a", 1, 2.5, '"'])}
        | {"price": chance.choice(values), "note": chance.choice(values)}
        for number in range(300)
    ]
    (tmp_path / "job.py").write_text(SALES)
    job = ("--job", str(tmp_path / "job.py"), "--source", f"sales={logged(tmp_path / 's.json', sales)}")
    job = (*job, "--agents", agents)
    assert answered(*job, "--stage", "elements") == answered(*job, "--stage", "logs")
    assert answered(*job) == answered(*job, "--stage", "all")


def test_a_job_without_elements_is_refused_with_what_elf_local_runs(tmp_path):
    quotes = logged(tmp_path / "quotes.json", [])
    finished = elf_process.elf("local", "--job", "kmeans", "--source", f"quotes={quotes}")
    finished.refuses(2, "elf local runs jobs with elements")
