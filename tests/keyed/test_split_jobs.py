"""Jobs whose keys are split among workers come to what they would be unsplit: queries, and elements in Python."""

from __future__ import annotations

import json
import random
from pathlib import Path

import elf_process
import pytest
from seeds import seeds

BEGIN_MS = 1_700_000_000_000
GROUPINGS = ("fish", "shuffle", "fields", "pkg", "dchoices", "wchoices")
JOB = """
import elf

Visit = elf.source("SELECT site, user, bytes FROM visits")


@elf.event
class Seen:
    site: str
    user: int
    n: int
    most: int
    pages: object


class Total(elf.PE):
    keys = {Visit: KEY}
    every_s = 30
    SPLIT
    n: int = 0
    most: int = 0
    pages: dict[str, int] = {}

    def process_event(self, visit):
        self.n += 1
        self.most = max(self.most, visit.bytes)
        page = str(visit.bytes % 3)
        self.pages[page] = self.pages.get(page, 0) + 1

    def combine(self, other):
        self.n += other.n
        self.most = max(self.most, other.most)
        for page, n in other.pages.items():
            self.pages[page] = self.pages.get(page, 0) + n

    def output(self):
        site, user = (self.key, 0) if isinstance(self.key, str) else self.key
        self.emit(Seen(site, user, self.n, self.most, dict(sorted(self.pages.items()))))


class Totals(elf.Job):
    elements = [Total]
    query = "SELECT site, user, n, most, pages FROM Seen ORDER BY site, user, n LIMIT 1000"
"""


def visits(path: Path, count: int = 3_000) -> str:
    """A log with one very hot key, and many others."""
    chance = random.Random(5)
    events = [
        {
            "time": BEGIN_MS + 50 * number,
            "site": "hot" if chance.random() < 0.5 else f"site{int(chance.paretovariate(1)) % 400}",
            "user": chance.randrange(3),
            "bytes": chance.randrange(1_000),
        }
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def answered(*arguments: str) -> str:
    finished = elf_process.elf("local", *arguments, "--output", "csv")
    assert finished.code == 0, finished.err
    return finished.out


def totals(folder: Path, key: str, split: str, *options: str) -> str:
    job = folder / "totals.py"
    job.write_text(JOB.replace("KEY", key).replace("SPLIT", split))
    return answered("--job", str(job), "--source", f"visits={folder / 'visits.json'}", *options)


@pytest.mark.parametrize("key", seeds("'site'", slow=["('site', 'user')"]))
def test_states_of_parts_combine_to_what_one_element_has(tmp_path: Path, key: str) -> None:
    visits(tmp_path / "visits.json")
    unsplit = totals(tmp_path, key, "")
    assert unsplit.count("\n") > 50
    assert totals(tmp_path, key, "grouping = 'fish'") == unsplit
    assert totals(tmp_path, key, "grouping = 'shuffle'; workers = 5", "--agents", "4") == unsplit


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_keyed_query_answers_as_the_plain_one_on_any_number_of_agents(tmp_path: Path, grouping: str) -> None:
    log = visits(tmp_path / "visits.json")
    asked = "SELECT site, COUNT(*) AS n, MAX(bytes) AS most FROM logs{} GROUP BY site ORDER BY n DESC LIMIT 9"
    keyed = asked.format(f" KEYED BY site GROUPING {grouping} OVER 12 WORKERS")
    assert answered(keyed, log, "--agents", "3") == answered(asked.format(""), log)
