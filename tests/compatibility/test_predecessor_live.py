"""Agents and clients of the release before this one, as processes, beside the present ones."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from agent_process import AgentProcess, eventually
from numbered_lines import Windows, Writer, check, count_while
from predecessor import ROOT, unpack

from overlay import Authority, CreatorFiles, app_id, read_public_key
from overlay.transport.link.framing import VERSION
from query.plan.wire import WIRE_VERSION

pytestmark = [pytest.mark.live, pytest.mark.slow]
AUTHORITY = Authority.create("shop")
PER_PRODUCT = "SELECT product, COUNT(*) AS n, APPROX_COUNT_DISTINCT(id) AS d FROM web GROUP BY product ORDER BY product"
IDS = "SELECT id, COUNT(*) AS n FROM web GROUP BY id WINDOWING 4 SECONDS GRACE 2 SECONDS"
APP = "ids"
MASTER = int(app_id(APP, b""))
LINES = 60
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree of the release before; what runs in it runs its code."""
    tree = unpack(tmp_path_factory.mktemp("before"))
    where = [sys.executable, "-c", "import agent; print(agent.__file__)"]
    found = subprocess.run(where, cwd=tree, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()) == tree / "agent/__init__.py"
    return tree


@contextmanager
def fleet(folder: Path, trees: list[Path | None]) -> Iterator[list[AgentProcess]]:
    """An agent of each tree; None: of the present release. The first is the master of the job `ids`."""
    agents: list[AgentProcess] = []
    for number, tree in enumerate(trees, 1):
        seeds = (agents[0].address,) if agents else ()
        node_id = MASTER ^ (number - 1 << 120)
        agents.append(AgentProcess(folder / f"agent-{number}", AUTHORITY, f"agent-{number}", seeds, node_id))
        agents[-1].tree = tree
    with ExitStack() as stack:
        for agent in agents:
            stack.enter_context(agent.start())
        for agent in agents:
            agent.ready()
            assert runs(agent, agent.tree or ROOT)
            eventually(lambda agent=agent: len(agent.status().leaf_set) == len(trees) - 1, "everyone knows everyone")
        yield agents
        for agent in agents:
            assert agent.stop() == 0
            assert [line for line in agent.events() if line["level"] in ("error", "critical")] == []


def runs(agent: AgentProcess, tree: Path) -> bool:
    """Whether it is the code of this tree that an agent runs."""
    return Path(f"/proc/{agent.pid}/cwd").resolve() == tree.resolve()


def typed(tree: Path, agent: AgentProcess, *arguments: str) -> str:
    """What the `elf` of a tree prints of what it asks an agent."""
    command = [sys.executable, "-c", "from elf.cli import main; main()", *arguments]
    finished = subprocess.run(
        [*command, "--socket", str(agent.control_socket)],
        cwd=tree, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def asked(tree: Path, agent: AgentProcess, *arguments: str) -> Any:
    """The one object that it prints for programs."""
    (line,) = typed(tree, agent, *arguments, "--output", "json").splitlines()
    return json.loads(line)


@pytest.mark.parametrize("old", [[1], [2, 3]], ids=["one agent of the release before", "two"])
def test_old_and_new_agents_answer_old_and_new_clients(before: Path, tmp_path: Path, old: list[int]) -> None:
    """Whoever of them is the job's master, combines, or is asked."""
    with fleet(tmp_path, [before if number in old else None for number in (1, 2, 3)]) as agents:
        for number, agent in enumerate(agents):
            lines = [
                {"time": "2026-01-01T00:00:00Z", "id": 100 * number + n, "product": "ab"[n % 2]} for n in range(LINES)
            ]
            (agent.folder / "web.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for tree in (before, ROOT):
            for agent in agents[:2]:
                result = asked(tree, agent, "query", "--once", "--app", APP, PER_PRODUCT)
                assert (result["contributors"], result["expected"], result["missing"]) == (3, 3, [])
                assert [(row["product"], row["n"]) for row in result["rows"]] == [("a", 90), ("b", 90)]
                assert all(abs(row["d"] - 90) <= 5 for row in result["rows"])


@pytest.mark.parametrize(
    ("how", "is_back"),
    [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGTERM, True)],
    ids=["ended and upgraded", "killed and upgraded", "ended and taken back to the release before"],
)
def test_an_agent_goes_on_from_the_state_of_the_other_release(
    before: Path, tmp_path: Path, how: signal.Signals, is_back: bool
) -> None:
    """Its positions, what it has sealed, its number and its jobs: nothing is lost, nothing counted twice."""
    first, then = (None, before) if is_back else (before, None)
    with fleet(tmp_path, [first, None, first]) as agents:
        windows, upgraded = Windows(), agents[2]
        log = upgraded.folder / "web.log"
        log.write_text('{"time": "2026-01-01T00:00:00Z", "id": -1}\n')
        writer = Writer(log)

        def upgrade() -> None:
            with writer.writing():
                eventually(lambda: windows.counted() > 0, "a first window", PATIENCE_S)
                for agent in (upgraded, agents[0]):  # the second is the job's master
                    agent.stop(how)
                    agent.tree = then
                    agent.start().ready()
                    assert runs(agent, then or ROOT)
                    reached = windows.counted()
                    eventually(lambda: windows.counted() > reached + 100, "further windows", PATIENCE_S)  # noqa: B023
            eventually(lambda: windows.counted() >= writer.written, "the last window", PATIENCE_S)

        trio.run(count_while, upgrade, agents[1].control_socket, len(agents), IDS, APP, windows)
        check(writer, windows)


def test_old_and_new_agents_change_a_job_together(before: Path, tmp_path: Path) -> None:
    """A new client runs a query in several trees, an old one changes it, and each sees what comes of it."""
    with fleet(tmp_path, [before, None, None]) as agents, ExitStack() as writing:
        for number, agent in enumerate(agents):
            log = agent.folder / "web.log"
            log.write_text('{"time": "2026-01-01T00:00:00Z", "id": -1}\n')
            writing.enter_context(Writer(log, 1_000_000 * number).writing())
        text = "SELECT id, COUNT(*) AS n FROM web GROUP BY id WINDOWING 1 SECONDS TREES 3"
        assert typed(ROOT, agents[0], "query", "--detach", "--app", APP, text) == f"{APP}\n"
        for tree, agent in ((before, agents[1]), (ROOT, agents[2])):
            job = asked(tree, agent, "jobs")
            assert (job["app"], job["query"], job["version"]) == (APP, text, 1)
        changed = text.replace("COUNT(*) AS n", "COUNT(*) AS n, MAX(id) AS m")
        assert asked(before, agents[1], "update", APP, "--query", changed)["version"] == 2
        for tree, agent in ((before, agents[1]), (ROOT, agents[0])):
            eventually(
                lambda tree=tree, agent=agent: is_whole(asked(tree, agent, "follow", "--windows", "1", APP)),
                "a whole window",
            )
        assert asked(before, agents[2], "stop", APP)["app"] == APP


def is_whole(window: Any) -> bool:
    """Whether a window is of the changed query and has lines of all three agents."""
    by_agent = {row["id"] // 1_000_000 for row in window["rows"]}
    members = (window["contributors"], window["expected"], window["partial"], window["version"])
    return members == (3, 3, [], 2) and by_agent == {0, 1, 2} and all(row["m"] == row["id"] for row in window["rows"])


CODE = """
from dataclasses import dataclass

import elf

@elf.message
@dataclass(frozen=True)
class Whole:
    agents: int

class Counts(elf.Job):
    query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"

    def on_result(self, window):
        if window.contributors == 3:
            self.multicast(Whole(3))

    def on_multicast(self, app, message):
        self.log(f"all {message.agents}")
"""


@pytest.mark.parametrize("of", ["the release before", "this release"])
def test_code_that_is_signed_by_either_runs_beside_all_agents(before: Path, tmp_path: Path, of: str) -> None:
    """The bundle, its signature, and what programs say to each other."""
    maria = CreatorFiles(tmp_path / "maria")
    maria.create("maria", None)
    maria.certificate_file.write_bytes(AUTHORITY.trust("maria", read_public_key(maria.public_file)))
    (tmp_path / "counts.py").write_text(CODE)
    with fleet(tmp_path, [before, None, before]) as agents, ExitStack() as writing:
        for agent in agents:
            log = agent.folder / "web.log"
            log.write_text('{"time": "2026-01-01T00:00:00Z", "id": -1}\n')
            writing.enter_context(Writer(log).writing())
        tree, creator = before if of == "the release before" else ROOT, ("--creator", str(tmp_path / "maria"))
        typed(tree, agents[1], "submit", str(tmp_path / "counts.py"), "--app", "counts", *creator)

        def all_have_said_it() -> bool:
            said = [line.split(maxsplit=2)[1:] for line in typed(ROOT, agents[0], "logs", "counts").splitlines()]
            return all([agent.name, "all 3"] in said for agent in agents)

        eventually(all_have_said_it, "each agent's program has heard of a window of all three", PATIENCE_S)
        typed(tree, agents[2], "stop", "counts", *creator)


def test_an_agent_of_a_release_too_far_away_is_told_which_is_to_be_upgraded(tmp_path: Path) -> None:
    """It stays alone, and the fleet as it is."""
    with fleet(tmp_path, [None, None]) as agents:
        later = AgentProcess(tmp_path / "later", AUTHORITY, "agent-3", (agents[0].address,))
        later.program = (
            "import overlay.transport.link.framing as framing; framing.VERSION += 1; from elf.cli import main; main()"
        )
        with later.start():
            said = later.event("no seed lets this agent in, trying again")["failures"]
            assert said == [
                f"{agents[0].address}: another version of ELF (the agents' protocol is of version {VERSION} there, and"
                f" {VERSION + 1} here: upgrade the other agent)"
            ]
            refused = agents[0].event("connection")
            assert refused["reason"] == "another version of ELF"
            assert refused["message"].endswith(
                f"is of version {VERSION + 1} there, and {VERSION} here: upgrade this agent)"
            )
            assert later.stop() == 0
        assert [len(agent.status().leaf_set) for agent in agents] == [1, 1]


def test_an_agent_that_cannot_read_a_plan_is_missing_and_the_jobs_log_says_why(tmp_path: Path) -> None:
    earlier = AgentProcess(tmp_path / "earlier", AUTHORITY, "agent-3")
    earlier.program = "import query.plan.wire as wire; wire.WIRE_VERSION -= 1; from elf.cli import main; main()"
    with fleet(tmp_path, [None, None]) as agents, earlier:
        earlier.change("seeds = []", f"seeds = {json.dumps([agents[0].address])}").start().ready()
        eventually(lambda: len(agents[0].status().leaf_set) == 2, "everyone knows everyone")
        for agent in (*agents, earlier):
            (agent.folder / "web.log").write_text('{"time": "2026-01-01T00:00:00Z", "id": 1, "product": "a"}\n')
        result = asked(ROOT, agents[0], "query", "--once", "--app", APP, PER_PRODUCT)
        assert (result["contributors"], result["expected"], result["missing"]) == (2, 3, ["agent-3"])
        (line,) = typed(ROOT, agents[0], "logs", APP).splitlines()
        assert line.endswith(
            f"  agent-3  this agent cannot run the job: not a plan that can run: it is of version {WIRE_VERSION},"
            f" and plans of version {WIRE_VERSION - 1} run here"
        )
        assert earlier.stop() == 0
