"""A job's elements are planned where the job is submitted: what does not go together is refused before it is signed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from beside import HEAD

from agent.programs.element_graph import ElementGraph
from elf.errors import ElfError
from elf.local import LocalOptions
from elf.local_job import FileAnalyser
from elf.program.code import about, load_code
from elf.signing.submission import JobFile, contents_of, read_job
from query import Schema

CATALOG = {
    "quotes": Schema({"text": "string"}, open=False),
    "serves": Schema({"serve": "string", "query": "string", "ad": "string", "user": "string"}, open=False),
    "clicks": Schema({"serve": "string", "ad": "integer"}, open=False),
}


def submitted(job: JobFile) -> ElementGraph:
    (function, *_) = contents_of(FileAnalyser(CATALOG, LocalOptions(0)), job, job.about.app, "maria")[
        job.about.app
    ].functions
    return msgspec.convert(function.plan["elements"], ElementGraph)


def test_fields_of_sources_and_declared_elements_are_known_then() -> None:
    graph = submitted(read_job(Path("top_words")))
    fields = {one.name: one.fields for one in graph.types}
    assert fields["Quote"] == [("text", "string")]
    assert fields["Sort"] == [("sort", "integer"), ("word", "string"), ("n", "integer")]
    assert fields["Merge"] == [("word", "string"), ("n", "integer")]
    assert all(one.plan for one in graph.sources)


QUOTE = "SELECT text FROM quotes"
BEST = "elf.top(Quote, key='text', of='text', by='n')"


@pytest.mark.parametrize(
    ("source", "element", "said"),
    [
        ("'SELECT txt FROM quotes'", BEST, "source Quote: line 1, column 8: there is no column txt in quotes"),
        ("'SELECT COUNT(*) AS n FROM quotes'", BEST, "source Quote: a source has no groups"),
        ("'SELECT text AS time_ms FROM quotes'", BEST, "source Quote: time_ms is no name of a field"),
        (f"'{QUOTE}', guaranteed=False, shed='x'", BEST, "source Quote: shed='x' is none of its columns: text"),
        (f"'{QUOTE}'", BEST, "element Best: it names the field 'n'"),
        (
            f"'{QUOTE}'",
            "elf.aggregate(Quote, key='text', value='SUM(x) AS s')",
            "element Best: line 1, column 18: there is no column x in Quote",
        ),
        (
            f"'{QUOTE}'",
            "elf.aggregate(Quote, key='text', value='FIRST(text) AS s')",
            "element Best: it has no window and FIRST",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_element(source: str, element: str, said: str) -> None:
    job = (
        "class Job(elf.Job):\n    elements = [Best]\n    query = 'SELECT COUNT(*) AS n FROM Best WINDOWING 1 SECOND'\n"
    )
    code = f"{HEAD}\nQuote = elf.source({source})\nBest = {element}\n{job}".encode()
    with pytest.raises(ElfError) as error:
        submitted(JobFile(code, about(load_code(code).kind)))
    assert str(error.value).startswith(said)


def test_keys_of_a_join_are_of_one_type() -> None:
    with pytest.raises(ElfError, match="its keys have different types of values"):
        submitted(read_job(Path("ctr")))
