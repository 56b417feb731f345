"""Samples of a stream from all agents: bounded whatever they send, and refused to creators by each agent's rules."""

from __future__ import annotations

import msgspec
import pytest

from agent.access.decision import Access
from agent.access.owners import owner_of_creator
from agent.access.rules import AccessRole, AccessRule
from agent.control.messages import TappedLine
from agent.control.observation.fleet_tap import NAMED_MAX, SHOWN_MAX, merged, refusal_of
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.descriptions import SAMPLE_LINES_MAX, StreamSample

LINE = msgspec.json.encode(TappedLine("web.log", {"n": 1}))
KEY = "0" * 32
RULES = (AccessRule(AccessRole.QUERY, creators=("maria",), streams=("web",)),)


def sample(number: int, lines: list[bytes], skipped: int = 0, refusal: str = "") -> StreamSample:
    return StreamSample(FLEET_GROUP, 1, f"agent-{number:04}", True, lines, skipped, len(lines) + skipped, refusal)


def test_a_thousand_agents_share_what_a_client_gets() -> None:
    found = merged("web", [sample(number, [LINE] * SAMPLE_LINES_MAX, 5) for number in range(1000)], 3)
    assert len(found.lines) == SHOWN_MAX
    assert found.skipped == 1000 * (SAMPLE_LINES_MAX + 5) - SHOWN_MAX
    assert (len(found.skipped_by), found.silent) == (NAMED_MAX, 3)
    few = merged("web", [sample(number, [LINE] * 10) for number in range(3)], 0)
    assert [line.agent for line in few.lines] == [f"agent-000{number}" for number in range(3) for _ in range(10)]
    assert (few.skipped, few.skipped_by) == (0, {})


def test_what_is_no_line_is_counted_and_not_shown() -> None:
    junk = [b"", b"[]", b'{"place": 7}', b"[" * 5000, b"\xff", LINE]
    found = merged("web", [sample(1, junk, refusal="no right")], 0)
    assert (len(found.lines), found.skipped, found.refused) == (1, 5, {"agent-0001": "no right"})


@pytest.mark.parametrize(
    ("owner", "stream", "is_refused"),
    [
        (owner_of_creator("maria", KEY), "web", False),
        (owner_of_creator("maria", KEY), "billing", True),
        (owner_of_creator("tom", KEY), "web", True),
        ("alice@agent-1", "billing", False),  # her own agent has looked at her rights
    ],
)
def test_creators_need_the_right_at_every_agent(owner: str, stream: str, is_refused: bool) -> None:
    refusal = refusal_of(Access("agent-2", RULES), owner, stream)
    assert (refusal is not None) == is_refused
    assert refusal is None or f"needs the right query over stream {stream}" in refusal or "right query" in refusal
