"""Where `elf dashboard` agrees to listen, and what a page makes of hostile names. No browser is needed."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agent.control.messages import AgentEntry, LogExcerpt, LogLine, Tree, TreePlaceEntry
from elf.dashboard.drawing.chart import chart_options
from elf.dashboard.drawing.ring import ring, summary
from elf.dashboard.drawing.tables import definitions, table
from elf.dashboard.drawing.tree import drawn_tree
from elf.dashboard.fleet_watch import SeenAgent
from elf.dashboard.listening import bound_socket, listening
from elf.dashboard.sections.details import drawn_log
from elf.dashboard.watched_job import ChartPoint
from elf.errors import ElfError, UsageError


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    return file


def test_here_a_token_is_made_up_and_elsewhere_it_is_asked_for(token_file: Path) -> None:
    for address in ("127.0.0.1:8420", "localhost:8420", "[::1]:8420"):
        place = listening(address, None, None, None, None)
        assert place.token is not None
        assert len(place.token) > 40
    for address in ("0.0.0.0:8420", "[::]:8420", "web-5:8420", "192.0.2.1:8420"):
        with pytest.raises(UsageError, match="can be reached from elsewhere: give --token-file"):
            listening(address, None, None, None, None)
        with pytest.raises(UsageError, match="must not travel in the clear: give --certificate"):
            listening(address, token_file, None, None, None)
    place = listening("0.0.0.0:0", token_file, Path("page.pem"), Path("page.key"), None)
    assert (place.token, place.url(1234)) == ("0123456789abcdef", "https://0.0.0.0:1234/")


def test_a_token_that_others_can_read_or_guess_is_refused(token_file: Path) -> None:
    token_file.chmod(0o644)
    with pytest.raises(UsageError, match=f"chmod 600 {token_file}"):
        listening("127.0.0.1:0", token_file, None, None, None)
    token_file.chmod(0o600)
    token_file.write_text("short")
    with pytest.raises(UsageError, match="16 characters or more"):
        listening("127.0.0.1:0", token_file, None, None, None)
    with pytest.raises(UsageError, match="no such file"):
        listening("127.0.0.1:0", token_file.parent / "none", None, None, None)


@pytest.mark.parametrize("address", ["8420", "127.0.0.1", "127.0.0.1:http", ":8420", "[::1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--listen takes HOST:PORT"):
        listening(address, None, None, None, None)


def test_a_taken_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = listening(f"127.0.0.1:{taken.getsockname()[1]}", None, None, None, None)
        with pytest.raises(ElfError, match="address already in use: name another address"):
            bound_socket(place)


def test_names_from_logs_are_no_markup_and_no_names_of_options() -> None:
    hostile = ":alert(1)<script>\x1b[31m\u202e"
    agent = AgentEntry(hostile, "ab" * 16, hostile, 1.0, 1, 1, 0, 1.0, 1, 1, None, False)
    place = TreePlaceEntry(hostile, "ab", 0, [hostile], None, hostile, 0, [hostile], 0, None, None, 1)
    drawn = [
        table(hostile, [hostile], [[hostile]]),
        ring([SeenAgent(agent, "ok")], hostile),
        summary([SeenAgent(agent, "silent")]),
        drawn_tree(Tree(hostile, "ab", hostile, hostile, 1, 1, None, [place], 0)),
        drawn_log(LogExcerpt(hostile, [LogLine(hostile, hostile, hostile)], 0)),
        definitions([(hostile, [hostile])]),
    ]
    for markup in drawn:
        assert "\x1b" not in markup
        assert "\u202e" not in markup
        assert "\\x1b[31m" in markup, "it is spelled out"
    for markup in (*drawn[:2], *drawn[3:]):
        assert "<script>" not in markup
    assert "<script>" not in table(hostile, [hostile], [[hostile]], keys=[hostile])
    options = chart_options([ChartPoint("2026-01-01T00:00:00Z", {hostile: 1.0}, 0)], hostile)

    def names(value: object) -> list[str]:
        if isinstance(value, dict):
            return [*value, *(name for one in value.values() for name in names(one))]
        return [name for one in value for name in names(one)] if isinstance(value, list) else []

    assert [name for name in names(options) if not name.isalpha()] == []
    assert "\x1b" not in str(options["series"][0]["name"])
    assert "no agents" in ring([], "")


def test_no_command_but_this_one_loads_the_toolkit() -> None:
    code = (
        "import sys, elf.cli, elf.commands.status, elf.commands.dashboard, elf.dashboard.listening; "
        "sys.exit(any(name in sys.modules for name in ('nicegui', 'fastapi', 'starlette', 'uvicorn')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
