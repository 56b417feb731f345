"""docs/jobs.md: every job in it runs over agents in memory, and says what the page says it does."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path

import click
import polars as pl
import pytest
from memory_fleet import WALL_MS
from program_fleet import Make, ProgramFleet, feed
from recording_client import client_of

from agent import StreamOptions
from agent.parsing import Parsed
from agent.runtime.requests.events import Shown
from elf.cli import cli
from overlay import Id

DOCUMENT = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text()
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
JOBS = {found.group(1): text for kind, text in BLOCKS if (found := re.search(r"^class (\w+)\(elf\.Job\)", text, re.M))}
"""By the names of their classes."""


def outcome(name: str) -> list[str]:
    """The lines that the page promises, after a job."""
    place = BLOCKS.index(("python", JOBS[name]))
    kind, text = BLOCKS[place + 1]
    assert kind == "text"
    return text.splitlines()


def said(fleet: ProgramFleet, key: Id) -> list[str]:
    return [text for _, text in fleet.log(key)]


def windows(fleet: ProgramFleet, *batches: tuple[float, tuple[str, ...]]) -> None:
    """Gives all agents clicks, by the second, and lets the windows before the last batch close."""
    fleet.catch_up()
    for second, products in batches:
        feed(fleet, second, *products)
    fleet.work()


def counts(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Counts"])
    windows(fleet, (12, ("a", "b", "a")), (40, ("z",)))
    assert said(fleet, key) == outcome("Counts")


def stars(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Stars"])
    windows(fleet, (12, ("a", "b", "a")), (40, ("z",)))
    fleet.wait_long(6.0)
    assert sorted(fleet.log(key)) == [(f"agent-{number}", *outcome("Stars")) for number in range(3)]


def banner(fleet: ProgramFleet) -> None:
    fleet.submit_code(JOBS["Banner"])
    windows(fleet, (12, ("a", "b", "a")), (40, ("z",)))
    (json,) = outcome("Banner")
    for agent in fleet.agents:
        assert [one for one in client_of(agent).notices() if isinstance(one, Shown)] == [Shown("banner", json.encode())]


def words(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Words"])
    windows(fleet, (12, ("The Red The Green", "red")), (40, ("the",)))
    assert said(fleet, key) == outcome("Words")


def votes(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Votes"])
    windows(fleet, (12, ("a", "b", "a")), (22, ("c", "b", "c", "c")), (60, ("z",)))
    assert said(fleet, key)[:2] == outcome("Votes")


def steep(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Steep"])
    fleet.wait_long(3.0)
    seen = ((42, ("b",)), (52, ("a", "b", "b")), (62, ("b",)), (72, ("a", "a", "b", "b")), (130, ("z",)))
    windows(fleet, *seen)
    fleet.wait_long(5.0)
    assert said(fleet, key) == outcome("Steep")


def pulse(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Pulse"])
    for _ in range(40):
        fleet.wait_long(1.0)
        fleet.catch_up()
    assert said(fleet, key)[-1:] == outcome("Pulse")


def zooming(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Zooming"])
    fleet.catch_up()
    for second in range(1, 30, 2):
        feed(fleet, second + 0.2, "a", "b", "c")
        fleet.wait(0.3)
        fleet.work()
    lines = said(fleet, key)
    assert (lines[0], lines[-1:]) == ("version 1: 3 rows, 9 clicks", outcome("Zooming"))
    assert len(set(lines)) == 2


def two_jobs(fleet: ProgramFleet) -> None:
    fleet.submit_code(JOBS["Bestseller"])
    reporter = fleet.submit_code(JOBS["Reporter"])
    windows(fleet, (12, ("a", "b", "a")), (40, ("z",)))
    fleet.wait_long(21.0)
    assert said(fleet, reporter) == outcome("Reporter")
    feed(fleet, 52, "b")
    feed(fleet, 75, "z")
    fleet.work()
    fleet.wait_long(1.0)
    assert "now it says [{'product': 'b', 'n': 3}]" in said(fleet, reporter)


def offers(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Offers"])
    fleet.wait_long(3.0)
    fleet.catch_up()
    put(fleet, "buys", *[(12, product, 0) for product in "aaabbc"], (26, "z", 0))
    put(fleet, "likes", (22, "a", 5), (22, "b", 2), (22, "c", 5), (40, "z", 0))
    sold, offer = outcome("Offers")
    assert sorted(said(fleet, key)) == [sold, *[offer] * 3]


def put(fleet: ProgramFleet, stream: str, *events: tuple[int, str, int]) -> None:
    """All agents read second, product and stars in one stream."""
    rows = [(WALL_MS + second * 1000, product, stars) for second, product, stars in events]
    frame = pl.DataFrame(rows, {"@time": pl.Int64, "product": pl.String, "stars": pl.Int64}, orient="row")
    for agent in fleet.agents:
        for one in agent.ingest.feeds():
            if one.stream == stream:
                fleet.give(agent, one.key, Parsed((frame,), malformed=0))
    fleet.settle()
    for _ in range(2):  # what one stage has found is another one's to read
        fleet.work()
        fleet.wait_long(5.0)


def micro_promotion(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["MicroPromotion"])
    feed(fleet, 0.5, "a", "b", "b", "c", "c", "c")
    fleet.wait_long(4.5)
    assert sorted(fleet.log(key)) == [(f"agent-{n}", line) for n in range(3) for line in outcome("MicroPromotion")]


def totals(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Totals"])
    feed(fleet, 0.5, "a", "b")
    fleet.wait_long(6.0)
    feed(fleet, 6.5, "a")
    fleet.wait_long(5.0)
    assert said(fleet, key) == outcome("Totals")


def branches(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["Branches"])
    feed(fleet, 0.5, "a", "b")
    fleet.wait_long(6.0)
    assert sorted(said(fleet, key)) == outcome("Branches")
    master = next(agent for agent in fleet.agents if agent.masters.state(key) is not None)
    assert {agent for agent, _ in fleet.log(key)} == {master.name}


def price_groups(fleet: ProgramFleet) -> None:
    key = fleet.submit_code(JOBS["PriceGroups"])
    fleet.catch_up()
    for second in range(1, 30, 2):
        prices = pl.DataFrame({"price": [1.0, 2.0, 8.0, 20.0, 22.0]})
        frame = prices.with_columns(pl.lit(WALL_MS + second * 1000, pl.Int64).alias("@time"))
        for number in range(3):
            fleet.insert(number, Parsed((frame,), malformed=0))
        fleet.settle()
        fleet.work()
    lines = said(fleet, key)
    assert lines[0] == outcome("PriceGroups")[0]
    assert lines[-1] == outcome("PriceGroups")[-1]


PLAYS: dict[str, Callable[[ProgramFleet], None]] = {
    "Counts": counts, "Stars": stars, "Banner": banner, "Words": words, "Votes": votes, "Steep": steep,
    "Pulse": pulse, "Zooming": zooming,
    "Bestseller": two_jobs, "Reporter": two_jobs, "Offers": offers, "MicroPromotion": micro_promotion, "Totals": totals,
    "Branches": branches, "PriceGroups": price_groups,
}  # fmt: skip

STREAMS = {offers: ["likes", "buys"]}
"""Those whose stream is not `web`."""


def test_every_job_of_the_page_is_run() -> None:
    assert list(JOBS) == list(PLAYS)
    assert len(JOBS) == sum(kind == "python" for kind, _ in BLOCKS)


@pytest.mark.parametrize("play", dict.fromkeys(PLAYS.values()), ids=lambda play: play.__name__)
def test_jobs_say_what_the_page_says(fleet_of: Make, play: Callable[[ProgramFleet], None]) -> None:
    play(fleet_of(streams=dict.fromkeys(STREAMS.get(play, ["web"]), StreamOptions())))


def test_the_readme_has_the_first_of_them() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    code = textwrap.dedent(readme.partition("## A job in Python\n")[2].partition("\nSigned")[0])
    assert [line for line in code.splitlines() if line] == [line for line in JOBS["Counts"].splitlines() if line]


# What the page says of masters that go.


def without_master(fleet: ProgramFleet, key: Id) -> None:
    number = next(n for n, agent in enumerate(fleet.agents) if agent.masters.state(key) is not None)
    fleet.network.remove(fleet.agents.pop(number).node)
    fleet.wait_long(25.0)


def test_what_all_objects_know_the_next_master_goes_on_with(fleet_of: Make) -> None:
    fleet = fleet_of(5)
    key = fleet.submit_code(JOBS["Stars"])
    windows(fleet, (12, ("a", "b", "a")), (40, ("z",)))
    fleet.wait_long(6.0)
    without_master(fleet, key)
    assert set(said(fleet, key)) == {"a is the best, with 10 clicks"}


def test_the_next_master_can_read_the_last_windows(fleet_of: Make) -> None:
    fleet = fleet_of(5)
    asking = """
    timer_s = 20.0

    def on_timer(self):
        if self.is_root:
            self.log(str([window.rows for window in self.ask("counts", windows=6)]))
"""
    key = fleet.submit_code(JOBS["Counts"] + asking)
    windows(fleet, (12, ("a", "b", "a")), (40, ("z",)))
    without_master(fleet, key)
    assert said(fleet, key)[-1] == "[[{'product': 'a', 'n': 10}, {'product': 'b', 'n': 5}]]"


def test_the_next_master_subscribes_anew(fleet_of: Make) -> None:
    fleet = fleet_of(6)
    watched = fleet.submit_code(JOBS["Bestseller"])
    key = fleet.submit_code(JOBS["Reporter"].replace("timer_s = 20.0", "timer_s = 2.0"))
    assert not any(
        agent.masters.state(watched) is not None and agent.masters.state(key) is not None for agent in fleet.agents
    )
    fleet.wait_long(5.0)
    without_master(fleet, key)
    windows(fleet, (42, ("b",)), (70, ("z",)))
    fleet.wait_long(7.0)  # the window waits for the part of the agent that is gone
    assert said(fleet, key).count("now it says [{'product': 'b', 'n': 5}]") == 1


COMMANDS = re.findall(r"^    elf (.*?)(?:  +#.*)?$", DOCUMENT, re.MULTILINE) + re.findall(r"`elf ([a-z].*?)`", DOCUMENT)


@pytest.mark.parametrize("line", dict.fromkeys(COMMANDS))
def test_commands_and_options_exist(line: str) -> None:
    command: click.Command | None = cli
    for word in shlex.split(line):
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word)
            assert command is not None, word
        elif word.startswith("--"):
            assert any(word in parameter.opts for parameter in command.params), word
