"""The Python examples of docs/asking-a-fleet.md are run as they are printed, against a scripted agent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_agent import ACCEPTED, Conversation, ScriptedAgent, acknowledged, window

from agent.control.messages import Answered, Ask, Ended, Follow, GetJobs, Job, Jobs, Query, Updated, UpdateJob

DOCUMENT = Path(__file__).parents[2] / "docs" / "asking-a-fleet.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
EXPECTED = [
    "2026-01-02T03:04:01Z 2 of 2 agents [{'product': 'Chess', 'clicks': 1000}]\n",
    "[{'product': 'Chess', 'clicks': 1000}]\n",
    "2 of 2 agents run it\nwithout ['agent-5']\n"
    "[{'product': 'Chess', 'clicks': 2000}]\n"
    "version 2 from 2026-01-02T03:05:00Z on\n[('shop', '2026-01-02T03:04:00Z')]\n",
]


def answer(conversation: Conversation) -> None:
    match conversation.request:
        case Query(detach=True):
            conversation.send(ACCEPTED)
        case Query():
            conversation.send(ACCEPTED, window(1000), Ended("finished"))
        case Follow():
            conversation.send(ACCEPTED, acknowledged(2, 2), window(1000, missing=["agent-5"]), Ended("finished"))
        case Ask():
            conversation.send(Answered("shop", ACCEPTED.query, ACCEPTED.columns, [window(2000)]))
        case UpdateJob():
            conversation.send(Updated("shop", ACCEPTED.query, 2, "2026-01-02T03:05:00Z", 2, 2, []))
        case GetJobs():
            job = Job("shop", "00", "web", "SELECT ...", "agent-1", 1, 1, 2, 2, False, "2026-01-02T03:04:00Z")
            conversation.send(Jobs([job]))


@pytest.mark.parametrize(("code", "expected"), [*zip(EXAMPLES, EXPECTED, strict=True)], ids=["sync", "trio", "follow"])
def test_examples_run_as_printed(socket_path: Path, code: str, expected: str) -> None:
    with ScriptedAgent(socket_path, answer):
        finished = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env=os.environ | {"ELF_SOCKET": str(socket_path)}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert (finished.stdout, finished.stderr, finished.returncode) == (expected, "", 0)


def test_every_command_and_error_is_described() -> None:
    import elf.client

    text = DOCUMENT.read_text()
    for name in elf.client.__all__:
        if name.endswith("Error"):
            assert name in text
    for verb in ("query", "follow", "ask", "jobs", "update", "stop", "status"):
        assert f"| `elf {verb}" in text
