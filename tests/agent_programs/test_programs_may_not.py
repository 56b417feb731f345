"""What a contained program is refused, and goes on after."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
from programs_run import COMMAND, GOOD, TRIED, WITH_FIRST_LANDLOCK, beside_a_good_one, needs_containment

pytestmark = [pytest.mark.trio, needs_containment]
ABSTRACT = f"elf-test-{os.getpid()}"
REFUSED = [
    "read /etc/passwd",
    "read /proc/self/environ",
    "read /proc/self/maps",
    "read /proc/PARENT/environ",
    "read /proc/PARENT/mem",
    "read /proc/PARENT/cmdline",
    "read /proc/PARENT/fd/0",
    "read /dev/tty",
    "read /dev/urandom",
    "read {secret}",
    "read {here}/pyproject.toml",
    "listing /",
    "listing {folder}",
    "listing {here}",
    "listing /proc",
    "listing /dev",
    "listing /etc",
    "listing {folder}/.ssh",
    "write {secret}",
    "write {new}",
    "write /dev/null",
    "write /dev/shm/elf-test",
    "write {importable}",
    "truncate_while_reading {secret}",
    "truncate_while_reading {importable}",
    "change_mode {secret}",
    "change_time {secret}",
    "remove {secret}",
    "make_directory {new}",
    "link {new}",
    "fork",
    "run_shell",
    "run_subprocess",
    "replace_self",
    "connect {port}",
    "connect_unix {unix}",
    "connect_unix @{abstract}",
    "pair_of_sockets",
    "kill_parent 0",
    "kill_parent 9",
    "kill_everybody",
    "signal_parent_when_readable",
    "become 0",
    "become 65534",
    "undo_no_new_privs",
    "outlive_the_agent",
    "limit_parent",
    "be_nicer",
    "hide_in_memory",
    "ignore_signals",
]


@pytest.fixture
def names(tmp_path: Path) -> Iterator[dict[str, object]]:
    """Things that could be had, were it not for the confinement."""
    secret = tmp_path / ".ssh" / "id_ed25519"
    secret.parent.mkdir()
    secret.write_text("hidden")
    secret.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "unix"))
        unix.listen()
        with socket.socket(socket.AF_UNIX) as abstract:
            abstract.bind(f"\0{ABSTRACT}")
            abstract.listen()
            yield {
                "secret": secret,
                "new": tmp_path / "new",
                "folder": tmp_path,
                "here": Path.cwd(),
                "importable": socket.__file__,
                "port": tcp.getsockname()[1],
                "unix": tmp_path / "unix",
                "abstract": ABSTRACT,
            }


@pytest.mark.parametrize("command", [COMMAND, WITH_FIRST_LANDLOCK], ids=["today", "first Landlock"])
async def test_refused(command: Sequence[str], names: dict[str, object], tmp_path: Path) -> None:
    quoted = {name: quote(str(thing)) for name, thing in names.items()}
    async with beside_a_good_one(command=command) as programs:
        for attempt in REFUSED:
            assert await programs.said(TRIED, attempt.format(**quoted)) == "PermissionError", attempt
            assert await programs.said(TRIED, "echo still") == "still", attempt
    secret = tmp_path / ".ssh" / "id_ed25519"
    assert secret.read_text() == "hidden"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o666
    assert not os.path.lexists(tmp_path / "new")


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        ("start_thread", "can't start new thread"),
        ("raise_limits", "not allowed to raise maximum limit"),
        ("open_many", "OSError"),
        ("read /dev/mem", "Error"),
        (f"kill_parent {int(signal.SIGTERM)}", "PermissionError"),
    ],
)
async def test_refused_in_other_words(attempt: str, answer: str) -> None:
    async with beside_a_good_one() as programs:
        programs.call(TRIED, attempt)
        told = await programs.next(TRIED)
        assert answer in str(told)


async def test_a_program_may_not_kill_another() -> None:
    async with beside_a_good_one() as programs:
        pid = await programs.said(GOOD, "pid")
        assert await programs.said(TRIED, f"kill {pid}") == "PermissionError"
