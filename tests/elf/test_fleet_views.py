"""What `elf top` and `elf tree` draw: bounded, and with nothing in it that a terminal would obey."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime

import msgspec
import pytest
from rich.console import Console, RenderableType

from agent.control.messages import AgentEntry, Fleet, JobEntry, Tapped, TappedLine, Tree, TreePlaceEntry
from elf.commands.tap import Told, _print
from elf.output.fleet_table import fleet_table
from elf.output.tree_drawing import drawn_tree

HOSTILE = "shop\x1b[2J\x07\n\u202e"
NOW_S = 1_790_000_000.0


def drawn(content: RenderableType, width: int = 100) -> list[str]:
    screen = io.StringIO()
    Console(file=screen, width=width, highlight=False).print(content)
    return screen.getvalue().splitlines()


def job(number: int, lag_s: float = 5.0, name: str = "job") -> JobEntry:
    upto = datetime.fromtimestamp(NOW_S - lag_s, UTC).isoformat().replace("+00:00", "Z")
    query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 MINUTE"
    return JobEntry(f"{name}-{number}", "ab" * 16, "web", query, "agent-1", 1, 1, 7, 8, False, upto)


def agent(number: int, rate: float = 1.0, lag_s: float | None = None, name: str = "agent") -> AgentEntry:
    return AgentEntry(f"{name}-{number}", f"{number:032x}", "0.1.0", 90.0, 96 << 20, 1000, 3, rate, 20, 2, lag_s, False)


def test_the_releases_of_a_fleet_that_is_being_upgraded() -> None:
    agents = [msgspec.structs.replace(agent(n), version=f"0.{n}.0\x1b[2J") for n in (1, 1, 2, 3, 4)]
    shown = drawn(fleet_table(Fleet(agents, 0), [], NOW_S, 30))
    assert "5 agents (2 of 0.1.0\\x1b[2J, 1 of 0.2.0\\x1b[2J, 1 of 0.3.0\\x1b[2J, …)" in shown[0]


def place(number: int, parent: int | None, **changes: object) -> TreePlaceEntry:
    parent_id = None if parent is None else f"{parent:032x}"
    choice = "root" if parent is None else "prefix"
    one = TreePlaceEntry(
        f"agent-{number}", f"{number:032x}", 0, ["worker"], parent_id, choice, 0, [], 1, 0.0042, 2.5, 0
    )
    return msgspec.structs.replace(one, **changes)


def tree(*places: TreePlaceEntry, silent: int = 0) -> Tree:
    return Tree("shop", "ab" * 16, "SELECT 1", "agent-1", 2, 3, "2026-01-02T03:04:00Z", list(places), silent)


def test_ten_thousand_jobs_fit_the_terminal_and_the_slowest_come_first() -> None:
    jobs = [job(number, lag_s=float(number)) for number in range(10_000)]
    begun = time.process_time()
    lines = drawn(fleet_table(Fleet([agent(1), agent(2)], 0), jobs, NOW_S, 40))
    assert time.process_time() - begun < 2
    assert len(lines) <= 40
    assert "2 agents · 2 events/s · 10,000 jobs" in lines[0]
    assert any("job-9999" in line for line in lines)
    assert not any("job-1 " in line for line in lines)
    assert "more jobs" in lines[-1]


def test_many_agents_leave_room_for_jobs() -> None:
    agents = [agent(number, rate=float(number)) for number in range(1000)]
    lines = drawn(fleet_table(Fleet(agents, 3), [job(number) for number in range(5)], NOW_S, 24))
    assert len(lines) <= 24
    assert "1,000 agents, 3 silent" in lines[0]
    assert sum("job-" in line for line in lines) == 5
    assert any("agent-999" in line for line in lines)


@pytest.mark.parametrize("width", [20, 80])
def test_names_of_jobs_and_agents_are_not_obeyed(width: int) -> None:
    fleet = Fleet([agent(1, name=HOSTILE)], 0)
    table = drawn(fleet_table(fleet, [job(1, name=HOSTILE)], NOW_S, 40), width)
    picture = drawn(drawn_tree(tree(place(1, None, agent=HOSTILE, roles=[HOSTILE], awaited=[HOSTILE], waiting=1))))
    for text in ("".join(table), "".join(picture)):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "\\x1b" in "".join(picture)


def test_a_tree_is_drawn_from_its_root_down_with_what_holds_it_up() -> None:
    root = place(1, None, roles=["master", "combiner"], round_trip_s=None, waiting=2, awaited=["agent-3"])
    text = "\n".join(drawn(drawn_tree(tree(root, place(2, 1), place(3, 2, choice="passed_down"), silent=1))))
    assert "shop: master agent-1, 2 of 3 agents run it, up to 2026-01-02T03:04:00Z" in text
    assert "1 agents have not answered" in text
    assert "agent-1  master, combiner · lag 2.5 s · 2 runs wait for agent-3" in text
    assert text.index("agent-2  worker · 4.2 ms · lag 2.5 s · prefix") < text.index("agent-3  worker")
    assert "passed down" in text


def test_a_place_below_a_silent_agent_is_drawn_too() -> None:
    text = "\n".join(drawn(drawn_tree(tree(place(1, None), place(2, 99)))))
    assert "agent-2" in text
    assert "its parent has not answered" in text


def test_circles_and_long_chains_of_agents_end() -> None:
    circle = drawn(drawn_tree(tree(place(1, 2), place(2, 1))))
    assert "2 more, in no path from the root" in circle[-1]
    chain = [place(0, None), *(place(number, number - 1) for number in range(1, 3000))]
    assert len(drawn(drawn_tree(tree(*chain)), 200)) <= 2010


def test_tapped_lines_are_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    tapped = Tapped("web", [TappedLine("a.log", {"agent": HOSTILE}), TappedLine(HOSTILE, line=HOSTILE)], 7, 9)
    assert _print(tapped, "table", 5, Told()) == 3
    assert _print(tapped, "json", 1, Told()) == 0
    shown = capsys.readouterr()
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.out + shown.err)
    assert shown.out.count("\n") == 3
    assert "7 more were not shown" in shown.err


def test_lines_of_all_agents_say_whose_they_are_and_what_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [TappedLine("a.log", {"n": 1}, agent="web-1"), TappedLine("b.log", line="no event", agent=HOSTILE)]
    tapped = Tapped("web", lines, 1_007, 2_000, {"web-1": 1_000, HOSTILE: 7}, {"web-3": "no right"}, 1)
    told = Told()
    for _ in range(2):
        _print(tapped, "table", None, told)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == 'web-1: {"n":1}'
    assert "b.log: no event" in shown.out.splitlines()[1]
    assert shown.err.count("1,007 more were not shown (web-1 1,000, ") == 2
    assert shown.err.count("web-3 shows nothing: no right") == shown.err.count("1 agents do not answer") == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.out + shown.err)
