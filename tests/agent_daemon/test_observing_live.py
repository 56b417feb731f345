"""Two agents as they are observed: metrics, also misused by strangers, `elf top`, `elf tree`, `elf tap`."""

from __future__ import annotations

import http.client
import json
import re
import resource
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess, eventually, free_port
from elf_process import elf
from prometheus_client.parser import text_string_to_metric_families

from agent.control.messages import TapRequest
from agent.metrics.families import PLAIN
from elf.client.sync_client import SyncClient
from overlay import Authority, app_id

pytestmark = pytest.mark.live
APP = "products\n\x1b[31m"
CONNECTIONS = 1000
METRIC = re.compile(r"\b((?:elf|process)_[a-z_]+[a-z])\b")
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Watched(AgentProcess):
    """An agent whose metrics are served."""

    def serve_metrics(self) -> Watched:
        self.metrics_port = free_port()
        self.config += f'[metrics]\nlisten = "127.0.0.1:{self.metrics_port}"\n'
        return self

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def samples(self) -> Samples:
        status, text = self.get("/metrics")
        assert status == 200
        return {
            (one.name, tuple(sorted(one.labels.items()))): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.samples()[name, tuple(sorted(labels.items()))]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.metrics_port), timeout=20)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The first of two agents, and the master of the job; the other one knows it."""
    folder, authority = tmp_path_factory.mktemp("watched"), Authority.create("shop")
    first = Watched(folder / "a", authority, node_id=int(app_id(APP, b""))).serve_metrics()
    second = AgentProcess(folder / "b", authority, "agent-2", (first.address,))
    for one in (first, second):
        (one.folder / "web.log").write_text("")
    with first.start(), second.start():
        second.ready()
        eventually(lambda: len(first.status().leaf_set) == 1, "both know each other")
        yield first


def write(agent: AgentProcess, *lines: str) -> None:
    with (agent.folder / "web.log").open("a") as log:
        log.writelines(f"{line}\n" for line in lines)


def event(number: int) -> str:
    return json.dumps({"product": f"p{number}", "time": time.time()})


def test_what_an_agent_reads_seals_and_publishes_is_counted(agent: Watched) -> None:
    assert agent.get("/readyz") == (200, "ready\n")
    assert agent.value("elf_agent_active") == 1
    assert agent.value("elf_agent_info", agent="agent-1", fleet="shop", version=version("elf-stream")) == 1
    write(agent, event(0))
    text = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"
    with SyncClient(str(agent.control_socket), 20).query(text, app=APP) as job:
        eventually(lambda: agent.value("elf_jobs", state="working") == 1, "the job works")
        look_around(agent)
        write(agent, *map(event, range(20)), "no event")
        next(job)
        eventually(lambda: agent.value("elf_stream_events_total", stream="web") >= 20, "events are counted")
        found = eventually(
            lambda: (now := agent.samples())["elf_publish_delay_seconds_count", ()] and now, "a window is out"
        )
    assert found["elf_seal_delay_seconds_count", ()] > 0
    assert 0 < found["elf_seal_delay_seconds_sum", ()] / found["elf_seal_delay_seconds_count", ()] < 30
    assert found["elf_stream_malformed_lines_total", (("stream", "web"),)] == 1
    assert found["process_resident_memory_bytes", ()] > 50e6
    lags = [labels for name, labels in found if name == "elf_pane_lag_seconds"]
    assert [dict(labels)["app"] for labels in lags] == [APP]


def test_what_elements_do_is_counted(agent: Watched) -> None:
    text = "SELECT COUNT(*) AS n FROM web KEYED BY product WINDOWING 1 SECOND GRACE 0 SECONDS"

    def has_processed() -> bool:
        write(agent, *map(event, range(20)))  # until the log is read
        return agent.value("elf_element_events_total") > 0

    with SyncClient(str(agent.control_socket), 20).query(text, app="by key"):
        eventually(has_processed, "its workers have had events")
        assert agent.value("elf_element_nodes") > 0
        counted = agent.status().counters.keys()
    assert counted >= {f"{one.part}.{one.counter}" for one in PLAIN if one.part == "keyed"}


def look_around(agent: Watched) -> None:
    """What the commands show of two agents that run one job."""
    socket = ("--socket", str(agent.control_socket))
    top = elf("top", "--output", "json", "--rounds", "1", *socket)
    look = json.loads(top.out)
    assert [one["agent"] for one in look["fleet"]["agents"]] == ["agent-1", "agent-2"]
    assert look["fleet"]["silent"] == 0
    assert [job["app"] for job in look["jobs"]] == [APP]
    assert "2 agents" in elf("top", *socket).out
    tree = eventually(lambda: _whole_tree(*socket), "both are in the tree, one below the other")
    (top_place,) = (place for place in tree["places"] if place["parent"] is None)
    (below,) = (place for place in tree["places"] if place["parent"] is not None)
    assert top_place["roles"][0] == "master"
    assert (below["parent"], below["depth"]) == (top_place["node_id"], 1)
    assert below["choice"] in ("prefix", "nearer")
    assert f"{below['agent']}  worker" in elf("tree", APP, *socket).out
    assert elf("tree", "nothing", *socket).code == 1


def _whole_tree(*socket: str) -> dict[str, Any] | None:
    tree: dict[str, Any] = json.loads(elf("tree", APP, "--output", "json", *socket).out)
    return tree if len(tree["places"]) == 2 else None


def test_every_metric_that_rules_the_dashboard_and_documents_name_is_there(agent: Watched) -> None:
    status, page = agent.get("/metrics")
    assert status == 200
    known = set(re.findall(r"^([a-z_]+)[ {]", page, re.MULTILINE)) | set(
        re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
    )
    root = Path(__file__).parents[2]
    rules = (root / "deploy/prometheus/elf-rules.yml").read_text()
    panels = json.loads((root / "deploy/grafana/elf-fleet.json").read_text())["panels"]
    named = {
        "rules": METRIC.findall("".join(re.findall(r"expr: (?:>-\n)?(.*?)(?=\n +(?:for|labels):)", rules, re.DOTALL))),
        "dashboard": METRIC.findall(" ".join(one["expr"] for panel in panels for one in panel["targets"])),
        "documents": METRIC.findall((root / "docs/observing.md").read_text()),
    }
    assert {where: sorted(set(names) - known) for where, names in named.items()} == {one: [] for one in named}
    assert len(set(named["rules"])) > 15
    assert len(set(named["dashboard"])) > 25
    check = shutil.which("promtool")
    if check is not None:
        assert subprocess.run([check, "check", "metrics"], input=page.encode(), check=False).returncode == 0


def test_new_lines_of_a_stream_are_shown_as_events_or_as_they_are(agent: Watched) -> None:
    write(agent, event(0))  # a stream without a line has no columns
    client = SyncClient(str(agent.control_socket), 20)
    with ExitStack() as taps:
        wanted = [TapRequest("web", where="product = 'x'"), TapRequest("web", malformed=True), TapRequest("web")]
        events, malformed, everything = (client.tap(one) for one in wanted)
        for one in (events, malformed, everything):
            taps.callback(one.close)
            assert next(one).lines == []  # it reads from here
        write(
            agent, *(json.dumps({"product": "xy"[n % 2], "time": time.time()}) for n in range(40)), "\x1b[2J no event"
        )
        shown = next(one for one in events if one.lines)
        assert {line.event["product"] for line in shown.lines if line.event} == {"x"}
        assert len(shown.lines) + shown.skipped == 20
        assert [line.line for line in next(one for one in malformed if one.lines).lines] == ["\x1b[2J no event"]
        sample = next(one for one in everything if one.lines)
        assert (len(sample.lines) + sample.skipped, sample.read) == (40, 41)
        assert sample.skipped >= 20
    socket = ("--socket", str(agent.control_socket))
    assert "no stream logs; its streams: web" in elf("tap", "logs", *socket).err
    assert "line 1, column" in elf("tap", "web", "--where", "nonsense(", *socket).err
    refused = elf("tap", "web", "--where", "product = 'x' GROUP BY product", *socket)
    assert refused.code == 2


def test_new_lines_of_all_agents_are_shown_with_their_agents(agent: Watched) -> None:
    other = agent.folder.parent / "b" / "web.log"
    write(agent, event(0))
    client = SyncClient(str(agent.control_socket), 20)
    with closing(client.tap(TapRequest("web", where="product = 'x'", everywhere=True))) as tapped:
        assert next(tapped).refused.keys() <= {"agent-2"}, "a stream without a line has no columns"
        with other.open("a") as log:
            log.write(event(0) + "\n")
        assert next(one for one in tapped if not one.refused)
        lines = [json.dumps({"product": "xy"[n % 2], "time": time.time()}) for n in range(60)]
        write(agent, *lines)
        with other.open("a") as log:
            log.write("".join(f"{line}\n" for line in lines))
        shown: Counter[str] = Counter()
        skipped: Counter[str] = Counter()
        while min(shown["agent-1"] + skipped["agent-1"], shown["agent-2"] + skipped["agent-2"]) < 30:
            sample = next(tapped)
            assert {line.event["product"] for line in sample.lines if line.event} <= {"x"}
            shown.update(line.agent for line in sample.lines)
            skipped.update(sample.skipped_by)
        assert (shown + skipped) == {"agent-1": 30, "agent-2": 30}
        assert min(skipped.values()) >= 10, "of each agent no more than a share of the rate"
    absent = elf("tap", "logs", "--all", "--socket", str(agent.control_socket))
    assert "there is no stream logs: none of the 2 agents that have answered has it" in absent.err


def test_a_thousand_connections_and_hostile_heads_do_no_harm(agent: Watched) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * CONNECTIONS)), hard))
    before = agent.status().memory_bytes
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for number in range(CONNECTIONS):
            one = held.enter_context(agent.connect())
            if number % 3 == 1:
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-Slow: ")  # and never the rest
            elif number % 3 == 2:
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")  # and never reads
            if number % 100 == 50:
                with agent.connect() as other:
                    other.sendall(b"X" * 20_000)
                    assert b" 431 " in other.recv(4096)
                assert agent.get("/healthz") == (200, "ok\n")
        assert agent.samples()["elf_agent_active", ()] == 1
        assert agent.status().active
    assert agent.status().memory_bytes - before < 30e6
    assert agent.get("/nowhere")[0] == 404
    assert agent.get("/metrics", "DELETE")[0] == 405
    eventually(
        lambda: agent.value("elf_metrics_refused_total") > CONNECTIONS // 2, "those without patience are counted"
    )
    assert not [line for line in agent.events() if line["level"] == "error"]


@pytest.mark.slow
def test_an_agent_whose_metrics_cannot_be_served_says_so_and_lives(tmp_path: Path) -> None:
    agent = Watched(tmp_path / "b", Authority.create("shop")).serve_metrics()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", agent.metrics_port))
        taken.listen()
        with agent.start().ready():
            warned = agent.event("metrics are not served")
            assert (warned["where"], warned["reason"]) == (f"127.0.0.1:{agent.metrics_port}", "Address already in use")
            assert agent.status().active
