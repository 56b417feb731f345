"""Jobs on agent processes: queries, and programs whose creator the fleet trusts."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import elf
from agent.control.messages import JobUpdated
from agent.runtime.model.bundle import Bundle
from benchmarks.agents import LIVE, until_all_run
from benchmarks.race import BenchmarkError
from elf.client import SyncClient
from elf.demo.agents.agents import AgentFleet
from elf.program.code import about, load_code
from elf.signing.creator import creator_in, owned_job, stop_signature
from elf.signing.submission import JobFile, contents_of, signed
from overlay import parse_id

SELECT = f"SELECT product, SUM(clicks_count) AS clicks FROM {LIVE}"
GROUPS = "GROUP BY product WINDOWING 1 SECOND"
PROGRAMS = Path(__file__).parent / "programs"
START_TIMEOUT_S = 60.0
POLL_S = 0.2


@contextmanager
def running_query(fleet: AgentFleet, app: str, query: str) -> Iterator[None]:
    """A live query of the first agent's, which all agents run."""
    with elf.connect_sync(fleet.socket(fleet.names[0])) as client, client.query(query, app=app) as job:
        until_all_run(job, len(fleet.names), START_TIMEOUT_S)
        yield


def program(name: str, folder: Path = PROGRAMS, **constants: object) -> bytes:
    """The code of one of this benchmark's jobs, or of another folder's, with other values of its constants."""
    code = (folder / f"{name}.py").read_text(encoding="utf-8")
    for constant, value in constants.items():
        code, found = re.subn(rf"^{constant} = .*$", f"{constant} = {value!r}", code, flags=re.MULTILINE)
        assert found == 1, f"{name} has no {constant}"
    return code.encode()


@dataclass(slots=True)
class RunningProgram:
    """A job in Python that all agents of a fleet run, asked for by way of one of them."""

    fleet: AgentFleet
    client: SyncClient
    app: str
    mandate: tuple[int, bytes] = (0, b"")

    def submit(self, code: bytes) -> None:
        """Starts it, and waits until all agents run it."""
        app_id, bundle = self._signed(code)
        with self.client.submit(self.app, app_id, bundle) as job:
            until_all_run(job, len(self.fleet.names), START_TIMEOUT_S)

    def update(self, code: bytes) -> tuple[JobUpdated, float]:
        """Lets all agents run other code; with the milliseconds from the signed bundle to the answer."""
        app_id, bundle = self._signed(code)
        began = time.monotonic()
        updated = self.client.update_bundle(self.app, app_id, bundle, reset=True)
        return updated, 1000 * (time.monotonic() - began)

    def stop(self) -> None:
        """Raises BenchmarkError if it has ended by itself."""
        running = owned_job(self.client, self.app)
        if running is None:
            said = [line.text for line in self.client.log(self.app).lines[-2:]]
            raise BenchmarkError(f"{self.app} has ended: {said}")
        self.client.stop(self.app, app_id=running.app_id, seal=stop_signature(running, self.fleet.creator))

    def reports(self, speakers: int, timeout_s: float) -> dict[str, Any]:
        """What its programs have logged as JSON, by agent, once so many have. Raises BenchmarkError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            said = {line.agent: json.loads(line.text) for line in self.client.log(self.app, lines=1000).lines}
            if len(said) >= speakers:
                return said
            time.sleep(POLL_S)
        raise BenchmarkError(f"{self.app}: {len(said)} of {speakers} agents have reported within {timeout_s:g} s")

    def _signed(self, code: bytes) -> tuple[str, bytes]:
        creator = creator_in(self.fleet.creator)
        contents = contents_of(self.client, JobFile(code, about(load_code(code).kind)), self.app, creator.name)
        app_id, bundle = signed(creator, self.app, contents[self.app], self.mandate)
        made = msgspec.msgpack.decode(bundle, type=Bundle)
        self.mandate = (made.seal.counter, made.digest(parse_id(app_id)))
        return app_id, bundle


@contextmanager
def running_program(fleet: AgentFleet, app: str, code: bytes) -> Iterator[RunningProgram]:
    """A job in Python on all agents, asked for by way of the last; at the end it is stopped."""
    client = elf.connect_sync(fleet.socket(fleet.names[-1]), timeout_s=START_TIMEOUT_S)
    job = RunningProgram(fleet, client, app)
    job.submit(code)
    yield job
    job.stop()
