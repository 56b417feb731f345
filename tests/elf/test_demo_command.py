"""`elf demo` from start to end: what it shows is what happened, and nothing is left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elf", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def shops_running(directory: Path) -> list[str]:
    """Command lines of live processes that name the folder."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in line and "elf.demo.shop" in line:
            lines.append(line)
    return lines


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to look for processes in")
def test_the_demo_answers_over_what_its_servers_wrote(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    finished = demo("--seconds", "2", "--keep", str(logs))
    assert (finished.returncode, finished.stderr) == (0, "")
    text = finished.stdout
    assert "8 web servers on 127.0.0.1" in text
    assert "WHERE store == `video_games`" in text
    assert "8 of 8 agents" in text
    assert "events/s" in text
    counted = re.search(r"The visitors counted ([\d,]+) answers, the logs \1: all of them are in the result", text)
    assert counted
    lines = sum(len(log.read_text().splitlines()) for log in logs.glob("shop-*/access.log"))
    assert lines == int(counted[1].replace(",", "")) > 100
    assert len(list(logs.glob("shop-*/events.json"))) == 8
    assert shops_running(logs) == []

    again = demo("--keep", str(logs))
    assert again.returncode == 2
    assert again.stderr.startswith("elf: --keep")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to look for processes in")
def test_ctrl_c_leaves_no_server_behind(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    command = [sys.executable, "-m", "elf", "demo", "--seconds", "60", "--keep", str(logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "8 web servers" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in complaint) == (130, False)
    assert shops_running(logs) == []


def test_a_closed_pipe_or_a_missing_folder_is_no_accident(tmp_path: Path) -> None:
    command = f"{sys.executable} -m elf demo --seconds 1 | true; echo ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert (finished.stdout, finished.stderr) == ("141\n", "")
    (tmp_path / "file").touch()
    refused = demo("--keep", str(tmp_path / "file" / "logs"))
    assert (refused.returncode, refused.stderr.startswith("elf: --keep")) == (1, True)
