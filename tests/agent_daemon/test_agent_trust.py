"""Agents as processes: one is shut out of a fleet, and the fleet's authority is replaced under it, without a stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from agent_process import AgentProcess, eventually

from overlay import Authority, Revocation, parse_id

AUTHORITY = Authority.create("shop")
QUICK = """
from agent.daemon import identity_watch, run
from elf.cli import main
identity_watch.LOOK_S = run.SWEEP_S = 0.5
main()
"""
NAMES = ("agent-1", "agent-2", "agent-3")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[list[AgentProcess]]:
    """Three agents that know each other, and look at their files twice a second."""
    agents: list[AgentProcess] = []
    with ExitStack() as stack:
        for name in NAMES:
            agent = stack.enter_context(
                AgentProcess(tmp_path / name, AUTHORITY, name, tuple(one.address for one in agents[:1]))
            )
            agent.program = QUICK
            agent.change('key = "agent.key"', 'key = "agent.key"\ncrl = "crl.pem"')
            (agent.folder / "crl.pem").write_bytes(AUTHORITY.revocation_list(1, []))
            agents.append(agent.start().ready())
        eventually(lambda: all(leaves(agent) == set(NAMES) - {agent.name} for agent in agents), "they know each other")
        yield agents


def leaves(agent: AgentProcess) -> set[str]:
    return set(agent.status().leaf_set)


def put(agent: AgentProcess, name: str, content: bytes) -> None:
    beside = agent.folder / f"{name}.new"
    beside.touch(mode=0o600)
    beside.write_bytes(content)
    beside.replace(agent.folder / name)


def lost(agent: AgentProcess) -> list[str]:
    return [line["node_id"] for line in agent.events() if line["event"] == "peer failed"]


@pytest.mark.slow
def test_a_list_given_to_one_agent_shuts_out_another_everywhere_and_for_good(fleet: list[AgentProcess]) -> None:
    one, two, thief = fleet
    serial = int(thief.status().identity.serial, 16)
    put(two, "crl.pem", AUTHORITY.revocation_list(2, [Revocation(serial, datetime.now(UTC))]))
    eventually(lambda: leaves(one) == {"agent-2"} and leaves(two) == {"agent-1"}, "the thief is out")
    for agent in (one, two):
        eventually(lambda agent=agent: [one.number for one in agent.status().identity.authorities] == [2], "the list")
        eventually(lambda agent=agent: agent.status().counters.get("transport.refused: certificate revoked"), "refused")
    assert one.stop() == 0
    one.change(
        "seeds = []", f'seeds = ["{two.address}"]'
    ).start().ready()  # its own file still says that nobody is revoked
    eventually(lambda: one.status().counters.get("transport.refused: certificate revoked"), "the thief is refused")
    eventually(lambda: leaves(one) == {"agent-2"}, "the honest ones are together")


@pytest.mark.slow
def test_the_authority_is_replaced_under_a_fleet(fleet: list[AgentProcess]) -> None:
    new = Authority.create("shop")
    both = AUTHORITY.certificate_pem + new.certificate_pem
    expired = {agent.name: agent.status().identity.serial for agent in fleet}

    def confirmed(authorities: int) -> bool:
        return all(len(agent.status().identity.authorities) == authorities for agent in fleet)

    for agent in fleet:
        put(agent, "ca.pem", both)
    eventually(lambda: confirmed(2), "install")
    for agent in fleet:
        credentials = new.issue(agent.name, node_id=parse_id(agent.status().node_id))
        put(agent, "agent.key", credentials.key_pem)
        put(agent, "agent.pem", credentials.certificate_pem)
    eventually(lambda: all(agent.status().identity.serial != expired[agent.name] for agent in fleet), "use")
    for agent in fleet:
        put(agent, "crl.pem", new.revocation_list(1, []))
        put(agent, "ca.pem", new.certificate_pem)
    eventually(lambda: confirmed(1), "remove")
    for agent in fleet:
        eventually(lambda agent=agent: leaves(agent) == set(NAMES) - {agent.name}, "all are there")
        assert lost(agent) == []
        assert agent.status().counters["transport.broken"] == 0
    straggler = AgentProcess(fleet[0].folder.parent / "late", AUTHORITY, "agent-4", (fleet[0].address,))
    (straggler.folder / "ca.pem").write_bytes(both)
    with straggler.start():
        eventually(
            lambda: fleet[0].status().counters.get("transport.refused: certificate of another authority"), "refused"
        )
    for agent in fleet:
        assert agent.stop() == 0
