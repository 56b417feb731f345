"""`elf local` in odd places: strange names, columns, streams and terminals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import zstandard
from elf_process import elf, elf_process, local
from seeds import seeds

ELF = f"{quote(sys.executable)} -m elf"
EVENT = {"ts": 1767323045, "clicks": 2, "product": "Chess"}
COMBINED = '203.0.113.9 - - [02/Jan/2026:03:04:05 +0000] "GET /a?x=1 HTTP/1.1" 200 512 "-" "curl/8"\n'
COUNT = "SELECT COUNT(*) AS n FROM logs"
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to write to")


@pytest.fixture
def events(tmp_path: Path) -> str:
    return write(tmp_path / "events.json", EVENT)


def write(path: Path, *events: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)


def test_columns_named_like_what_frames_carry_inside(tmp_path: Path) -> None:
    names = ["pane", "@time", "@coerced", "hash", "k0", "a0", "x0", "c0", "o0", "matched", "events", "window_start"]
    path = write(tmp_path / "x.json", EVENT | {name: number for number, name in enumerate(names)})
    quoted = ", ".join(f'"{name}"' for name in names)
    expected = [{name: number for number, name in enumerate(names)}]
    assert local(f"SELECT {quoted} FROM logs", path).rows == expected
    assert local(f"SELECT {quoted}, COUNT(*) AS n FROM logs GROUP BY {quoted}", path).rows == [{**expected[0], "n": 1}]
    total = local("SELECT SUM(pane) AS s FROM logs WHERE pane = 0 WINDOWING 1 DAY", path)
    assert total.rows == [{"s": 0}]


def test_a_column_may_have_an_empty_name(tmp_path: Path) -> None:
    table = tmp_path / "x.csv"
    table.write_text("time,,b\n2026-01-01,1,2\n")
    assert local("SELECT * FROM logs", str(table)).rows == [{"time": "2026-01-01", "": "1", "b": "2"}]
    path = write(tmp_path / "x.json", {"ts": 1767323045, "": 5})
    assert local('SELECT SUM("") AS s FROM logs', path).rows == [{"s": 5}]


def test_names_in_a_complaint_are_made_printable(tmp_path: Path) -> None:
    table = tmp_path / "x.csv"
    table.write_text('time,"a\x1b[31m\nb",c\n2026-01-01,1,2\n')
    for finished in (
        local("SELECT zzz FROM logs", str(table)),
        local("SELECT zzz FROM nowhere", "--source", f"lo\x1bgs={table}"),
        elf("local", "--no-such\x1b-option"),
    ):
        assert finished.code == 2
        assert "\x1b" not in finished.err
        assert len(finished.err.splitlines()) <= 4
    local(COUNT, str(tmp_path / "gone\n\x1b[31m.json")).refuses(2, "gone\\n\\x1b", "no such file")
    local(COUNT, "").refuses(2, "'': no such file")


def test_an_empty_file_knows_nothing_of_columns(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.touch()
    alone = local("SELECT a FROM logs", "--source-format", "csv", str(empty))
    assert (alone.rows, alone.err) == ([], "")
    table = tmp_path / "x.csv"
    table.write_text("time,price\n2026-01-01,1\n")
    local("SELECT pric FROM logs", str(table), str(empty)).refuses(2, "did you mean price?")


def test_a_warning_tells_a_missing_column_from_a_wrong_use(events: str, tmp_path: Path) -> None:
    assert "no event has a value for column clickz" in local("SELECT clickz FROM logs", events).err
    assert "no event has a number in column product" in local("SELECT SUM(product) FROM logs", events).err
    access = tmp_path / "access.log"
    access.write_text(COMBINED)
    assert local("SELECT * FROM logs", str(access)).err == ""
    assert local("SELECT clickz FROM logs", "/dev/null").err == ""


def test_a_time_field_that_combined_logs_cannot_have_is_refused(events: str, tmp_path: Path) -> None:
    access = tmp_path / "access.log"
    access.write_text(COMBINED)
    local(COUNT, "--time-field", "status", str(access)).refuses(2, "--time-field status")
    assert local(COUNT, "--time-field", "ts", str(access), events).rows == [{"n": 2}]


def test_zstandard_may_begin_with_a_frame_to_skip(events: str, tmp_path: Path) -> None:
    path = tmp_path / "events.json.zst"
    path.write_bytes(b"\x50\x2a\x4d\x18\x04\0\0\0size" + zstandard.compress(Path(events).read_bytes()))
    assert local(COUNT, str(path)).rows == [{"n": 1}]


def test_windows_beyond_the_years_of_dates_keep_their_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", {"ts": "0001-01-01T00:00:00Z"}, {"ts": "2026-01-01"}, {"ts": "9999-12-31"})
    finished = elf("local", "--output", "csv", COUNT + " WINDOWING 36500 DAYS", path)
    header, *lines = finished.out.splitlines()
    assert header == "window_start,window_end,n"
    assert [line.count(",") for line in lines] == [2, 2, 2]
    assert "… … 0071-04-06T00:00:00Z" in elf("local", COUNT + " WINDOWING 36500 DAYS", path).out


@pytest.mark.parametrize(("columns", "is_table"), [("200", True), ("80", False), ("20", False), ("0", False)])
def test_rows_too_wide_for_the_terminal_are_shown_as_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, is_table: bool
) -> None:
    access = tmp_path / "access.log"
    access.write_text(COMBINED)
    monkeypatch.setenv("COLUMNS", columns)
    out = elf("local", "SELECT * FROM logs", str(access)).out
    assert ("─" in out) == is_table
    assert "curl/8" in out
    assert "1 of 1 agents" in " ".join(out.split())


@needs_dev_full
@pytest.mark.parametrize(
    ("output", "target"),
    seeds(
        ("json", "1>&-"),
        ("csv", "1>/dev/full"),
        ("table", "1>/dev/full"),
        slow=[("json", "1>/dev/full"), ("csv", "1>&-"), ("table", "1>&-")],
    ),
)
def test_output_that_cannot_be_written_is_told(events: str, output: str, target: str) -> None:
    finished = shell(f"{ELF} local --output {output} '{COUNT}' {events} {target}")
    assert finished.returncode == 1
    assert finished.stderr.startswith("elf: cannot write the output: ")
    assert len(finished.stderr.splitlines()) == 1


@pytest.mark.parametrize("output", seeds("json", "table", slow=["csv"]))
def test_a_reader_that_has_gone_is_told_by_the_exit_code(events: str, output: str) -> None:
    finished = shell(f"{ELF} local --output {output} '{COUNT}' {events} | true; echo ${{PIPESTATUS[0]}}")
    assert (finished.stdout, finished.stderr) == ("141\n", "")


@needs_dev_full
@pytest.mark.parametrize("streams", seeds("2>/dev/full", "0<&- 2>&-", slow=["2>&-"]))
def test_warnings_that_nobody_can_read_cost_no_result(events: str, streams: str) -> None:
    finished = shell(f"{ELF} local --output csv 'SELECT nope, clicks FROM logs' {events} {streams}")
    assert (finished.returncode, finished.stdout) == (0, "nope,clicks\n,2\n")


def test_standard_input_that_is_closed_is_refused() -> None:
    finished = shell(f"{ELF} local '{COUNT}' - 0<&-")
    assert (finished.returncode, finished.stderr.startswith("elf: standard input: ")) == (2, True)


def test_a_terminal_of_another_encoding_is_no_accident(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", {"ts": 1, "name": "Zoë"})
    command = ("local", "--output", "json", "SELECT name FROM logs", path)
    assert elf_process(*command, PYTHONIOENCODING="ascii").rows == [{"name": "Zoë"}]


@pytest.mark.parametrize("begun", [False, True], ids=["before the first line", "after it"])
def test_ctrl_c_ends_a_wait_for_input(begun: bool) -> None:
    command = [sys.executable, "-m", "elf", "local", COUNT, "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        if begun:
            process.stdin.write(json.dumps(EVENT).encode() + b"\n")
            process.stdin.flush()
        deadline = time.monotonic() + 300
        while not waits_for_a_pipe(process.pid):
            assert time.monotonic() < deadline, "it does not read its input"
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130
        assert process.stdout.read() == b""


def waits_for_a_pipe(process_id: int) -> bool:
    """Whether the process sleeps in the kernel until a pipe has something to read."""
    return "pipe_read" in Path(f"/proc/{process_id}/wchan").read_text()


def test_no_command_shows_the_help_as_it_is() -> None:
    finished = elf()
    assert finished.code == 2
    assert finished.err.startswith("Usage: elf ")
    assert "see elf local --help" in elf("local").err
