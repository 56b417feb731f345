"""The report of reconcile: whole, with the faults marked, and with nothing of a log's text taken for anything else."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

from live_world import Logs, published, shop_logs, version

from elf.batch.reconcile.chart import picture
from elf.batch.reconcile.live_results import read_log
from elf.batch.reconcile.page import page
from elf.batch.reconcile.reconciliation import reconcile
from elf.batch.reconcile.text import as_json, summary
from elf.batch.reconcile.verdicts import Judged

HOSTILE = '</pre><script>alert(1)</script>"\x1b[31m\u202e'


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def judged(corrupt: bool = False, value: str = "a") -> list[Judged]:
    logs = shop_logs()
    lines = published(version(), logs, absent=["agent-2"])
    if corrupt:
        line = json.loads(lines[4])
        line["rows"][0]["product"] = value
        lines[4] = json.dumps(line).encode()
    return reconcile(read_log(lines, "shop"), Logs(logs))


def test_the_page_holds_every_window_and_fetches_nothing() -> None:
    found = Page(page("shop", [(1, "SELECT 1")], judged()))
    assert found.tags.count("tr") == 11
    assert found.tags.count("svg") == 1
    assert found.addresses == []
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert "10 windows: 10 explained" in found.text


def test_text_of_logs_and_queries_stays_text() -> None:
    html = page(HOSTILE, [(1, HOSTILE)], judged(corrupt=True, value=HOSTILE))
    found = Page(html)
    assert "script" not in found.tags
    assert "<script>alert(1)</script>" in found.text
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_the_picture_marks_what_is_not_explained() -> None:
    fine, faulty = (ElementTree.fromstring(picture(one)) for one in (judged(), judged(corrupt=True)))
    assert [len(one.findall("polyline")) for one in (fine, faulty)] == [2, 2]
    assert [len(one.findall("circle")) for one in (fine, faulty)] == [0, 1]
    colours = [mark.get("fill") for mark in faulty.findall("rect")]
    assert colours.count("var(--unexplained)") == 1
    assert len(colours) == 10
    assert picture([]) == ""


def test_programs_get_what_a_verdict_rests_on() -> None:
    windows = judged(corrupt=True)
    lines = [as_json("shop", one) for one in windows]
    faulty = [line for line in lines if line["verdict"] == "unexplained"]
    assert len(faulty) == 1
    assert "product is" in faulty[0]["difference"]
    assert faulty[0]["live_events"] == faulty[0]["offline_events"] > 0
    assert summary(windows) == "10 windows: 9 explained, 1 unexplained"
