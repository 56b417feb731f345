"""An agent that is killed after a reload goes on where it was, in the stream that came later too."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess, eventually
from elf_command import elf
from test_agent_fleet import AUTHORITY, Conversation
from test_reload_live import QUERY, windows_until, written

from agent.control.messages import Accepted, FollowRequest, PublishedWindow, QueryRequest

pytestmark = [pytest.mark.live, pytest.mark.slow]


def rows_of(windows: list[dict[str, Any]], product: str) -> list[dict[str, Any]]:
    return [row for window in windows for row in window["rows"] if row["product"] == product]


def test_a_killed_agent_goes_on_in_both_streams(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "a", AUTHORITY).change("*.log", "web.log")
    more = agent.folder / "conf.d" / "more.toml"
    more.parent.mkdir()
    with agent, written(agent.folder, timed=True, web="a", more="b"):
        agent.start().ready()
        with Conversation(agent, QueryRequest(QUERY.replace("GRACE 0", "GRACE 1"), "both", detach=True)) as asked:
            asked.until(Accepted)
            windows_until(asked, {"a"})
            more.write_text('[[streams]]\nname = "w2"\npaths = ["more.log"]\n')
            assert elf(tmp_path, "reload", "--socket", str(agent.control_socket))[0] == 0
            windows = windows_until(asked, {"a", "b"})
            windows = windows[-1:] + windows_until(asked, {"a", "b"})
        assert agent.stop(signal.SIGKILL) == -9
        agent.start().ready()
        last = windows[-1]["window_start"]

        def follow() -> list[dict[str, Any]] | None:
            with Conversation(agent, FollowRequest("both", 0)) as followed:
                if not isinstance(followed.answer(), Accepted):
                    return None
                found: list[dict[str, Any]] = []
                while len([one for one in found if one["window_start"] > last]) < 6:
                    found.append(json.loads(bytes(followed.until(PublishedWindow).result)))
                return found

        found = eventually(follow, "the job is there again")
        assert agent.stop() == 0
    later = {window["window_start"]: window for window in [*windows, *found]}
    every = [later[start] for start in sorted(later)]
    for product in "ab":
        rows = rows_of(every, product)
        assert all(row["last"] - row["first"] + 1 == row["n"] for row in rows), (product, rows)
        gaps = [after["first"] - before["last"] - 1 for before, after in pairwise(rows)]
        assert min(gaps) == 0, f"no line is counted twice: {rows}"
        assert gaps[-3:] == [0, 0, 0], rows
