"""`elf place`: the owners of a job's key groups as tables and lines, what it asks for, and what it does not ask."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

import click
import msgspec
import pytest
import trio
from asking_process import ask
from click.shell_completion import ShellComplete
from scripted_agent import Conversation, ScriptedAgent

import elf
from agent.control.messages import (
    AgentEntry,
    Fleet,
    GetStatus,
    JobPlacement,
    PlaceGroups,
    Refused,
    why_no_request,
)
from agent.control.observation.placement_entries import (
    DecisionEntry,
    GroupEntry,
    MeasuredEntry,
    MoveEntry,
    OwnerEntry,
)
from agent.runtime.model.fields import GROUPS
from elf.cli import cli
from elf.client import AsyncClient, RefusedError

OWNERS = [
    OwnerEntry(0, "web-1", "0a" * 16, 22, 120.0), OwnerEntry(1, "web-2", "0b" * 16, 23, 80.5),
    OwnerEntry(2, "", "0c" * 16, 21, 0.0),
]  # fmt: skip
PLACED = JobPlacement(
    "shop",
    OWNERS,
    [
        GroupEntry(group, [0, 1], ["web-1", "web-2"], 4.0)
        if group == 21
        else GroupEntry(group, [tree := group // 22], [OWNERS[tree].agent], 1.5)
        for group in range(GROUPS)
    ],
    [
        MoveEntry(1, 5, 1, "web-2", "instant", "2026-01-02T03:04:00Z", True),
        MoveEntry(2, 3, 1, "web-2", "instant", "2026-01-02T03:04:00Z", True),
        MoveEntry(3, 4, 1, "web-2", "instant", "2026-01-02T03:04:00Z", True),
        MoveEntry(4, 21, 1, "web-2", "smooth", "2026-01-02T03:05:00Z", False),
    ],
    [DecisionEntry("each pane", 0.0123, None), DecisionEntry("at the master", 0.0123, 0.5)],
    [MeasuredEntry("rows/s", 1234.5)],
)


def answering(path: Path, answer: JobPlacement | Refused | Fleet) -> ScriptedAgent:
    return ScriptedAgent(path, lambda conversation: conversation.send(answer))


def test_tables_are_short_and_say_who_owns_what(socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with answering(socket_path, PLACED) as server:
        finished = ask("place", "shop", socket=socket_path)
    assert (finished.code, finished.err) == (0, "")
    lines = [" ".join(line.split()) for line in finished.out.splitlines() if line.strip() and "─" not in line]
    assert lines == [
        "TREE OWNER GROUPS ROWS/S",
        "0 web-1 22 120.0",
        "1 web-2 23 80.5",
        f"2 {'0c' * 16} 21 0.0",
        "KEY GROUPS TREE OWNER ROWS/S",
        "0-20 0 web-1 31.5",
        "21 0 and 1 web-1 and web-2 4.0",
        "22-43 1 web-2 33.0",
        "44-63 2 one not heard of yet 30.0",
        "MOVED TO TREE OWNER MODE FROM OLD OWNER",
        "3-5 1 web-2 instant 2026-01-02T03:04:00Z done",
        "21 1 web-2 smooth 2026-01-02T03:05:00Z needed",
        "WINDOWS CPU S/MIN OTHERWISE",
        "each pane 0.0123 no other way",
        "at the master 0.0123 0.5",
        "MEASURED",
        "rows/s 1,234",
    ]
    assert server.requests == [PlaceGroups("shop")]


def test_programs_get_one_object_a_line(socket_path: Path) -> None:
    with answering(socket_path, PLACED):
        finished = ask("place", "shop", "--output", "json", socket=socket_path)
    lines = [json.loads(line) for line in finished.out.splitlines()]
    every = (*PLACED.owners, *PLACED.groups, *PLACED.moves, *PLACED.decisions, *PLACED.measured)
    assert lines == [msgspec.to_builtins(one) for one in every]
    assert [lines[number]["type"] for number in (0, 3, -1)] == ["owner", "group", "measured"]


@pytest.mark.parametrize(
    ("text", "groups"), [("3", [3]), ("0-3,7", [0, 1, 2, 3, 7]), (" 63, 5 - 6 ,5", [5, 6, 63]), ("0-63", [*range(64)])]
)
def test_groups_move_as_they_are_named(socket_path: Path, text: str, groups: list[int]) -> None:
    with answering(socket_path, PLACED) as server:
        assert ask("place", "shop", "--move", text, "--to", "web-2", socket=socket_path).code == 0
        smooth = ("place", "shop", "--move", text, "--to", "web-2", "--mode", "smooth")
        assert ask(*smooth, socket=socket_path).code == 0
    assert server.requests == [
        PlaceGroups("shop", groups, "web-2"), PlaceGroups("shop", groups, "web-2", "smooth"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--move", "64", "--to", "web-2"), "there is no key group 64: they are 0 to 63"),
        (("--move", "1-999999", "--to", "web-2"), "'1-999999' is no key group"),
        (("--move", "5-3", "--to", "web-2"), "5-3 ends before it begins"),
        (("--move", "", "--to", "web-2"), "'' is no key group: write them like 3,8-15"),
        (("--move", "3,,4", "--to", "web-2"), "'' is no key group"),
        (("--move", "²", "--to", "web-2"), "'²' is no key group"),
        (("--move", "-3", "--to", "web-2"), "'-3' is no key group"),
        (("--move", "3"), "--move GROUPS --to AGENT"),
        (("--to", "web-2"), "--move GROUPS --to AGENT"),
        (("--mode", "smooth"), "--move GROUPS --to AGENT"),
        (("--move", "3", "--to", "web-2", "--mode", "slow"), "'slow' is not one of"),
    ],
)
def test_what_makes_no_sense_is_not_asked_for(socket_path: Path, words: tuple[str, ...], why: str) -> None:
    finished = ask("place", "shop", *words, socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert why in finished.err
    assert "elf place --help" in finished.err
    assert len(finished.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (Refused("usage", "shop: no agent web-9 takes part in the job; these do: web-1"), 2),
        (Refused("unknown", "no job shop"), 1),
        (Refused("forbidden", "alice may not move key groups of shop"), 1),
        (Refused("unavailable", "the fleet did not answer in time"), 1),
    ],
)
def test_a_refusal_is_one_line_with_the_exit_code_of_its_kind(socket_path: Path, refused: Refused, code: int) -> None:
    with answering(socket_path, refused):
        finished = ask("place", "shop", "--move", "3", "--to", "web-9", socket=socket_path)
    assert (finished.code, finished.out, finished.err) == (code, "", f"elf: {refused.message}\n")


def test_an_agent_of_the_release_before_says_that_it_does_not_know_the_request(socket_path: Path) -> None:
    line = msgspec.json.encode(PlaceGroups("shop"))
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(line, type=GetStatus)
    with answering(socket_path, Refused("usage", why_no_request(line, caught.value))):
        finished = ask("place", "shop", socket=socket_path)
    assert (finished.code, finished.out) == (2, "")
    assert "an agent of another release than this elf may not know all of it" in finished.err
    assert len(finished.err.splitlines()) == 1


def test_what_agents_call_themselves_is_made_safe(socket_path: Path) -> None:
    evil = "\x1b[2J\u202egent\n\x9b"
    placed = JobPlacement(
        evil, [OwnerEntry(0, evil, evil, 1, 0.0)], [GroupEntry(0, [0], [evil], 0.0)],
        [MoveEntry(1, 0, 0, evil, "instant", evil, True)],
    )  # fmt: skip
    with answering(socket_path, placed):
        finished = ask("place", "shop", socket=socket_path)
    assert finished.code == 0
    assert not {"\x1b", "\u202e", "\x9b"} & set(finished.out + finished.err)


def test_both_clients_in_python_ask_alike(socket_path: Path) -> None:
    def script(conversation: Conversation) -> None:
        assert isinstance(conversation.request, PlaceGroups)
        conversation.send(PLACED if conversation.request.to != "web-9" else Refused("usage", "no agent web-9"))

    async def asked() -> list[JobPlacement]:
        async with elf.connect(socket_path) as client:
            assert isinstance(client, AsyncClient)
            return [await client.place("shop"), await client.place("shop", move=(1, 2), to="web-2", mode="smooth")]

    with ScriptedAgent(socket_path, script) as server:
        assert trio.run(asked) == [PLACED, PLACED]
        with elf.connect_sync(socket_path) as client:
            assert [client.place("shop"), client.place("shop", move=(1, 2), to="web-2", mode="smooth")] == [PLACED] * 2
            with pytest.raises(RefusedError, match="no agent web-9"):
                client.place("shop", move=[3], to="web-9")
    looks, moves = PlaceGroups("shop"), PlaceGroups("shop", [1, 2], "web-2", "smooth")
    assert server.requests == [looks, moves, looks, moves, PlaceGroups("shop", [3], "web-9")]


def completed(path: Path, *words: str) -> list[str]:
    """The completions of the last word."""
    *before, last = words
    with mock.patch.dict(os.environ, {"ELF_SOCKET": str(path)}):
        return [one.value for one in ShellComplete(cli, {}, "elf", "_ELF_COMPLETE").get_completions(before, last)]


def test_a_shell_completes_names_of_agents(socket_path: Path) -> None:
    names = ("web-1", "web-2", "db-1", "\x1b[2J")
    agents = [AgentEntry(name, "0a" * 16, "0.2.0", 1.0, 1, 1, 0, 1.0, 1, 0, None, False) for name in names]
    with answering(socket_path, Fleet(agents, 0)):
        assert completed(socket_path, "place", "shop", "--move", "3", "--to", "web") == ["web-1", "web-2"]
        assert completed(socket_path, "place", "shop", "--move", "3", "--to", "") == ["web-1", "web-2", "db-1"]
    assert completed(socket_path, "place", "shop", "--mode", "s") == ["smooth"]
    socket_path.unlink(missing_ok=True)
    assert completed(socket_path, "place", "shop", "--to", "") == [], "an agent that is away is no fault"


def test_its_help_shows_each_mode() -> None:
    with click.Context(cli) as context:
        command = cli.get_command(context, "place")
    assert command is not None
    assert command.epilog is not None
    assert all(mode in command.epilog for mode in ("instant", "smooth", "disruptive"))
