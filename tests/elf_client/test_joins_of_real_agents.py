"""A join of logs that lie on different real agents answers what `elf local` answers over the same files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking_process import ask
from paired_streams import ON

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = pytest.mark.live
BEGIN_MS = 1_767_225_600_000
JOIN = f"LEFT JOIN clicks WITHIN 30 SECONDS ON {ON}"
QUERY = (
    "SELECT serves.place, COUNT(*) AS n, COUNT(clicks.ad) AS clicked, SUM(clicks.price) AS paid "
    f"FROM serves {JOIN} GROUP BY serves.place ORDER BY serves.place"
)


def logs() -> dict[str, list[dict[str, object]]]:
    """Serves of two servers, and clicks of a third, some of which come too late or have no serve."""
    chosen, found = random.Random(3), {"serves-1": [], "serves-2": [], "clicks-1": []}
    for number in range(400):
        time_ms, name = BEGIN_MS + 500 * number, f"s{number}"
        serve = {"time": time_ms, "serve": name, "ad": number % 5, "place": chosen.choice(["top", "side"])}
        found[chosen.choice(["serves-1", "serves-2"])].append(serve)
        for after in chosen.choice([[], [], [2_000], [30_000], [30_001], [-5_000, 8_000]]):
            found["clicks-1"].append({"time": time_ms + after, "serve": name, "ad": number % 5, "price": number % 3})
    found["clicks-1"] += [{"time": BEGIN_MS, "ad": 1}, {"time": BEGIN_MS, "serve": "nobody", "ad": 1}]
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, paths = tmp_path_factory.mktemp("logs"), {}
    for name, events in logs().items():
        paths[name] = folder / f"{name}.json"
        paths[name].write_text("".join(json.dumps(event) + "\n" for event in events))
    return paths


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Iterator[AgentFleet]:
    """Each agent has one of the logs, and a further one has none that the query reads."""
    other = tmp_path_factory.mktemp("other") / "web.json"
    other.write_text("")
    specs = [
        AgentSpec(name, (StreamFiles(name.partition("-")[0], (str(path),), "beginning"),))
        for name, path in files.items()
    ]
    specs.append(AgentSpec("web-1", (StreamFiles("web", (str(other),)),)))
    with AgentFleet(tmp_path_factory.mktemp("fleet") / "agents", specs) as agents:
        yield agents
        assert agents.faults() == []


@pytest.mark.parametrize("asked", ["serves-1", "clicks-1", "web-1"])
def test_a_join_over_what_the_logs_hold_is_that_of_elf_local(
    fleet: AgentFleet, files: dict[str, Path], asked: str
) -> None:
    sources = [word for name, path in files.items() for word in ("--source", f"{name.partition('-')[0]}={path}")]
    here = ask("local", "--output", "json", QUERY, *sources, "--agents", "3")
    assert here.code == 0, here.err
    answered = ask("query", "--once", "--output", "json", QUERY, socket=fleet.socket(asked))
    assert answered.code == 0, answered.err
    there = json.loads(answered.out)
    assert not there.get("lost"), "the first question too: agents agree on hosts once they know each other"
    assert there["rows"] == json.loads(here.out)["rows"]
    assert [row["place"] for row in there["rows"]] == ["side", "top"]


def test_what_a_join_shuffles_is_shown(fleet: AgentFleet) -> None:
    explained = ask("query", "--explain", QUERY, socket=fleet.socket("web-1"))
    assert explained.code == 0, explained.err
    assert "shuffled over 1,024" in " ".join(explained.out.split())
