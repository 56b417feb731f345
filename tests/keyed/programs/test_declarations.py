"""Jobs declare their elements in Python: the graph that comes of it, and what is said of mistakes."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from agent.programs import calls
from agent.programs.calls import JobDescription
from agent.programs.element_graph import Element, ElementInput, EventType
from elf.program.code import CodeError, about, load_code
from elf.signing.submission import read_job

HEAD = """
import elf
Line = elf.source("SELECT text FROM web")
@elf.event
class Word:
    word: str
    n: int
"""
TAIL = """
class Words(elf.Job):
    elements = [One]
    query = "SELECT COUNT(*) AS n FROM Word WINDOWING 1 SECOND"
"""
ONE = HEAD + "class One(elf.PE):\n    keys = {Word: 'word'}\n    def process_event(self, event): pass\n"


def described(source: str) -> JobDescription:
    return about(load_code(textwrap.dedent(source).encode()).kind)


def test_the_first_figure_is_a_graph_of_four_elements() -> None:
    graph = read_job(Path("top_words")).about.elements
    assert graph is not None
    split, count, sort, merge = graph.elements
    assert split.inputs == [ElementInput("Quote", None)]
    assert count.inputs == [ElementInput("Word", ["word"])]
    assert sort.inputs == [ElementInput("Updated", ["sort"])]
    assert merge == Element(
        "Merge",
        "top",
        [ElementInput("Sort", [], 1234)],
        "Merge",
        every_s=1.0,
        options={"of": "word", "by": "n", "k": 10},
    )
    assert [one.options["emits"] for one in (split, count)] == [["Word"], ["Updated"]]
    assert [(one.type, one.query) for one in graph.sources] == [("Quote", "SELECT text FROM quotes")]
    assert EventType("Word", [("word", "string"), ("n", "integer")]) in graph.types


def test_the_fifth_figure_has_the_results_of_its_last_element() -> None:
    about = read_job(Path("ctr")).about
    graph = about.elements
    assert graph is not None
    seen, bots, last = graph.elements
    assert seen.inputs == [ElementInput("Serve", ["serve", "ad"]), ElementInput("Click", ["serve", "ad"])]
    assert (seen.options["flag"], seen.options["within_ms"], seen.output) == ("clicked", 1_800_000, "Seen")
    assert (bots.inputs, bots.ttl_s) == ([ElementInput("Seen", ["user"])], 3600.0)
    assert last.output == "KeptByQueryAd"
    assert not any(one.guaranteed for one in graph.types)
    assert [one.shed for one in graph.types if one.shed] == ["serve", "serve"]
    assert about.query == (
        "SELECT query, ad, MAX(serves) AS serves, MAX(ctr) AS ctr FROM KeptByQueryAd "
        "GROUP BY query, ad WINDOWING 1 HOUR"
    )


def test_the_graph_comes_with_the_description_of_a_program() -> None:
    loaded = calls.CodeLoaded(read_job(Path("top_words")).about)
    assert calls.read_act(calls.encode(loaded)) == loaded


def test_a_job_without_elements_has_no_graph() -> None:
    assert described("import elf\nclass A(elf.Job):\n    query = 'SELECT COUNT(*) FROM web'").elements is None


def test_types_that_code_only_tells_apart_are_not_emitted() -> None:
    source = HEAD + textwrap.dedent("""
        @elf.event
        class Click: word: str
        @elf.event
        class Out: word: str
        def helper(self, event):
            self.emit(Out(event.word))
        class One(elf.PE):
            keys = {Word: "word", Click: "word"}
            def process_event(self, event):
                if isinstance(event, Click) or type(event) is Word:
                    helper(self, event)
                match event:
                    case Click(word=word): pass
        """) + TAIL  # fmt: skip
    graph = described(source).elements
    assert graph is not None
    assert graph.elements[0].options["emits"] == ["Out"]


def test_a_method_is_not_taken_for_that_of_another_class() -> None:
    source = HEAD + textwrap.dedent("""
        @elf.event
        class Out: word: str
        class One(elf.PE):
            keys = {Word: "word"}
            every_s = 1
            def process_event(self, event): pass
            def output(self): self.emit(Out(self.key))
        class Two(elf.PE):
            keys = {Out: "word"}
            every_s = 1
            def process_event(self, event): self.output()
            def output(self): pass
        class Words(elf.Job):
            elements = [One, Two]
            query = "SELECT COUNT(*) AS n FROM Out WINDOWING 1 SECOND"
        """)
    graph = described(source).elements
    assert graph is not None
    assert [one.options["emits"] for one in graph.elements] == [["Out"], []]


def test_events_are_made_by_place_and_by_name_and_keep_their_methods() -> None:
    sale_class = (
        "@elf.event\nclass Sale:\n    price: float\n    n: int = 1\n    def total(self): return self.price * self.n\n"
    )
    code = load_code((HEAD + sale_class + ONE.removeprefix(HEAD) + TAIL).encode())
    sale = vars(sys.modules[code.kind.__module__])["Sale"]
    assert (sale(2.5).total(), sale(2.0, n=3).total(), sale(1.0, time_ms=7).time_ms) == (2.5, 6.0, 7)
    with pytest.raises(TypeError):
        sale(1.0, 2, 3)


MISTAKES = (Path(__file__).parent / "mistakes.txt").read_text().rstrip("\n").split("\n----\n")[1:]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_names_it(mistake: str) -> None:
    source, _, said = mistake.partition("\n>>> ")
    alone = source.removeprefix("ALONE\n")
    whole = f"{'' if alone != source else HEAD}{alone}\n{'' if 'elf.Job' in source else TAIL}"
    with pytest.raises(CodeError) as error:
        described(whole)
    assert str(error.value) == said
