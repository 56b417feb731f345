"""A machine joins a fleet by a token, as an operator types it, and its agent renews its certificate by itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_process import AgentProcess, eventually, free_port
from elf_process import elf

from overlay import Authority

pytestmark = [pytest.mark.live, pytest.mark.slow]
NEARLY_OVER_DAYS = "0.0046"
"""Six and a half minutes: certificates begin five minutes before they are made, so a third is left at once."""


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """`elf ca serve` as a process; its address."""
    address = f"127.0.0.1:{free_port()}"
    program = "from elf.demo.agents.__main__ import hold_on; hold_on(); from elf.cli import main; main()"
    command = [sys.executable, "-c", program, "ca", "serve", "ca", "--listen", address, *options]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline().startswith("serves the authority of fleet shop at")
        yield address
        process.terminate()
        assert process.wait(10) == 0


def test_a_machine_enrols_and_its_agent_renews_its_certificate(tmp_path: Path) -> None:
    assert elf("ca", "init", "ca", "--fleet", "shop", "--no-password", folder=tmp_path).code == 0
    agent = AgentProcess(tmp_path / "a", Authority.create("shop"), "web-5")
    agent.config = agent.config.replace('fleet = "shop"\nname = "web-5"\n', "")
    agent.config = agent.config[: agent.config.index("[identity]")] + agent.config[agent.config.index("[[streams]]") :]
    with served(tmp_path, "--days", NEARLY_OVER_DAYS) as address, agent:
        token = elf("ca", "token", "ca", folder=tmp_path).out.strip()
        options = ("--name", "web-5", "--out", "id", "--config", "a/agent.toml")
        enrolled = elf("agent", "enroll", f"{token}@{address}", *options, folder=tmp_path)
        assert (enrolled.code, enrolled.out.splitlines()) == (
            0,
            ["id: agent web-5 of fleet shop", "a/conf.d/enrolled.toml: names these files in the configuration"],
        )
        again = elf("agent", "enroll", f"{token}@{address}", *options, folder=tmp_path)
        assert again.code == 1
        assert "id/agent.pem: is already there and is not written over" in again.err
        agent.start().ready()
        serial = agent.event("identity replaced", 30.0)["serial"]
        assert agent.event("certificate renewed")["authority"] == address
        assert eventually(lambda: agent.status().identity.serial, "it has one")
        assert serial in elf("ca", "show", "ca", "--output", "json", folder=tmp_path).out
        assert agent.stop() == 0
