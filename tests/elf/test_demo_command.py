"""`elf demo` from start to end: what its screen shows is what happened, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from elf_process import elf
from terminal_process import TerminalProcess

from agent.programs.confinement import refusal

pytestmark = pytest.mark.live
COMMAND = [sys.executable, "-m", "elf", "demo"]
PATIENCE_S = 600.0
needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to look for processes in")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of the demo's folder, by whose name its processes are found; nothing may stay in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def processes_of(folder: Path) -> list[str]:
    """Command lines of live processes that name the folder."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and "elf.demo." in line:
            lines.append(line)
    return lines


def shown(*words: str) -> str:
    """What a demo that goes well prints where there is no terminal."""
    finished = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stdout
    assert "\x1b" not in finished.stdout, finished.stdout
    return finished.stdout


def wait_for_processes(folder: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(processes_of(folder)) != count:
        assert time.monotonic() < deadline, processes_of(folder)
        time.sleep(0.05)


def process_of(folder: Path, argument: str) -> int:
    """The one process below the folder that was started with this."""
    [found] = [
        int(entry.parent.name)
        for entry in Path("/proc").glob("[0-9]*/cmdline")
        if argument in (text := entry.read_text(errors="replace")) and str(folder) in text
    ]
    return found


def nothing_is_left(folder: Path) -> bool:
    return processes_of(folder) == [] and list(folder.iterdir()) == []


def first(screens: Sequence[str], pattern: str, after: int = 0) -> int:
    """The number of the first picture from `after` on with this in it."""
    for number, screen in enumerate(screens[after:], after):
        if re.search(pattern, screen):
            return number
    raise AssertionError(f"no {pattern!r} in any picture; the last one:\n{screens[-1]}")


@needs_proc
@pytest.mark.slow  # what happens when is tested without processes, and a kill with them
def test_the_demo_shows_a_kill_and_a_return_on_a_terminal(temporary: Path) -> None:
    terminal = TerminalProcess(COMMAND, columns=100, rows=40)
    assert terminal.run_to_end(PATIENCE_S) == 0
    screens = terminal.screens
    complete = first(screens, r"…  ?.*   8 of 8\n")
    killed = first(screens, r"✗ agent-5.*\n(.*\n)+.*agent-5 killed \(SIGKILL\)", complete)
    missing = first(screens, r"   7 of 8 · missing agent-5\n", killed)
    started = first(screens, r"◌ agent-5.*\n(.*\n)+.*agent-5 started again", missing)
    first(screens, r"   8 of 8\n(.*\n)+.*● agent-5", started)
    live = "\n".join(screens[complete:])
    for pattern in (r"00:\d\d of 00:45", r"[\d,]+ requests answered", r"[1-9][\d,]* events/s · lag \d\.\d\d s",
                    r"product +SUM\(clicks_count\)", r"Star Courier Arena +[\d,]+  █{24}"):  # fmt: skip
        assert re.search(pattern, live), f"no {pattern!r} in:\n{terminal.screens[-1]}"
    assert "Traceback" not in live
    end = screens[-1]
    assert re.search(r"\d+ of \d+ windows are complete: [\d,]+ events; \d+ say which agents are missing", end), end
    assert "to the event, what these agents' servers logged" in end, end
    assert re.search(
        r"The visitors counted ([\d,]+) answers; .*all it has of these logs, \1: the same", end.replace("\n", "")
    ), end
    assert "Try next:" in end, end
    assert terminal.cursor_is_visible()
    assert nothing_is_left(temporary)


@needs_proc
def test_on_a_terminal_it_draws_what_happens_and_sums_up(temporary: Path) -> None:
    terminal = TerminalProcess([*COMMAND, "--seconds", "3"], columns=100, rows=40)
    assert terminal.run_to_end(PATIENCE_S) == 0
    live = "\n".join(terminal.screens)
    for pattern in (r"00:\d\d of 00:03", r"[\d,]+ requests answered", r"● agent-5"):
        assert re.search(pattern, live), f"no {pattern!r} in:\n{terminal.screens[-1]}"
    assert "Traceback" not in live
    end = terminal.screens[-1]
    assert re.search(
        r"The visitors counted ([\d,]+) answers; .*all it has of these logs, \1: the ?same", end.replace("\n", "")
    ), end
    assert "Try next:" in end, end
    assert terminal.cursor_is_visible()
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow
def test_without_a_terminal_it_speaks_in_lines_and_leaves_out_what_there_is_no_time_for(
    tmp_path: Path, temporary: Path
) -> None:
    logs = tmp_path / "logs"
    text = shown("--seconds", "6", "--keep", str(logs))
    assert "8 web servers on 127.0.0.1" in text, text
    assert "WHERE store == `video_games`" in text, text
    assert "--seconds 6 is too short to kill an agent (it takes 23 seconds" in text, text
    assert re.search(r"8 of 8 agents run figure-4\S* after \d\.\d\d s, agent-\d is its master", text), text
    assert re.search(r"\d\d:\d\d:\d\d … \d\d:\d\d:\d\d  \d of \d  [\d,]+ events/s  lag \d\.\d\d s  top: ", text), text
    counted = re.search(r"The visitors counted ([\d,]+) answers; .*all it has of these logs, \1: the same", text)
    assert counted
    lines = sum(len(log.read_text().splitlines()) for log in logs.glob("shop-*/access.log"))
    assert lines == int(counted[1].replace(",", "")) > 100
    assert len(list(logs.glob("shop-*/events.json"))) == 8
    assert nothing_is_left(temporary)
    assert processes_of(logs) == []

    again = subprocess.run(
        [*COMMAND, "--keep", str(logs)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert again.returncode == 2
    assert again.stderr.startswith("elf: --keep")


@needs_proc
@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        pytest.param(signal.SIGINT, 130, "8 web servers", id="Ctrl-C while agents start"),
        pytest.param(signal.SIGTERM, 143, "8 web servers", id="SIGTERM while agents start", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, "is its master", id="Ctrl-C while it is live", marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, "is its master", id="SIGHUP while it is live", marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_it_in_good_order(temporary: Path, number: signal.Signals, code: int, line: str) -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line in said for said in process.stdout)
        process.send_signal(number)
        _, complaint = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaint.strip()) == (code, "")
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow
def test_it_goes_on_when_the_agent_that_it_asks_dies_and_when_there_is_no_time_for_a_return(temporary: Path) -> None:
    text = ""
    with subprocess.Popen([*COMMAND, "--seconds", "25"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            text += line
            if "  8 of 8  " in line and "has ended" not in text and text.count("  8 of 8  ") == 1:
                os.kill(process_of(temporary, "agent-1/agent.toml"), signal.SIGKILL)
    assert process.returncode == 0
    assert "agent-1 has ended: killed by signal 9" in text, text
    assert "the windows come by way of agent-2 now" in text, text
    assert "agent-5 killed (SIGKILL)" in text, text
    assert "6 of 8 · missing agent-1, agent-5" in text, text
    assert "not what the logs hold" not in text, text
    assert re.search(r"6 agents run; .* hold ([\d,]+) lines; .* these logs, \1: the same", text), text
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow  # what it rests on, the life lines of both kinds of processes, is tested by default
def test_when_it_is_killed_its_processes_end_by_themselves(temporary: Path) -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("8 agents beside" in said for said in process.stdout)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    wait_for_processes(temporary, 0)
    assert list(temporary.glob("**/*.sock")) == []


@needs_proc
@pytest.mark.slow
def test_it_ends_when_nobody_reads_it(temporary: Path) -> None:
    command = f"{sys.executable} -m elf demo --seconds 2 | grep -m 1 'is its master'; echo ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (finished.stdout.splitlines()[-1], finished.stderr) == ("141", "")
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow  # what these jobs find is checked with all five at once
@pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}")
def test_figure_1_is_one_command(temporary: Path) -> None:
    """Three jobs, one asks two, and all that they have found is what the servers' logs hold."""
    text = shown("figure1", "--seconds", "15")
    for app in ("micro-promotion", "product-bundling", "sale-prediction"):
        assert re.search(rf"\d\d:\d\d  8 of 8 agents run {app} after \d+\.\d s, agent-\d is its master", text), text
    assert re.search(r"\d\d:\d\d  micro-promotion: [\d,]+ events up to \S+Z, .* leads", text), text
    assert re.search(r"\d\d:\d\d  product-bundling: \d+ bundles of \d+ products", text), text
    assert re.search(r"sale-prediction: Angry Birds Season will (not )?sell: popular are \d+ of \d+", text), text
    assert re.search(r"servers' own logs, [\d,]+ events counted anew without ELF:", text), text
    assert re.search(r"[1-9][\d,]* pages were shown with a discount", text), text
    assert "✗" not in text, text
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow
@pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}")
def test_a_parameter_is_tuned_while_visitors_come(temporary: Path) -> None:
    """The job tries a prominence out on visitors, who like another one best; its outcomes are what the logs hold."""
    text = shown("opo", "--seconds", "60")
    assert re.search(r"\d\d:\d\d  4 of 4 agents run opo after \d+\.\d s, agent-\d is its master", text), text
    assert re.search(r"\d\d:\d\d  experiment 1: 0\.400 is better than 0\.200, by \+\d+\.\d of 100 visits", text), text
    assert re.search(r"[1-9]\d* of [1-9]\d* outcomes are the same to the visit", text), text
    gained = re.search(r"of 100\): (\d+)% of what could be gained", text)
    assert gained is not None, text
    assert int(gained[1]) > 30, text
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow
@pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}")
def test_hours_of_the_past_go_by_while_a_host_is_killed(temporary: Path) -> None:
    """Rates of serves and clicks, logged on different servers, are what the logs hold: all that came before the kill,
    and those of the hours after; those between differ where the killed host had something, and name it."""
    text = shown("ctr", "--seconds", "40")
    assert re.search(r"\d\d:\d\d  all 4 agents run ctr after \d+\.\d s", text), text
    had = re.search(r"\d\d:\d\d  host-[12] is killed \(SIGKILL\), with [\d,]+ elements in ([\d,]+) logical nodes", text)
    equal = re.search(r"(\d+) of (\d+) windows, [\d,]+ rates in all .*: equal to the logs", text)
    assert had is not None, text
    assert equal is not None, text
    assert int(equal[2]) > 50, text
    if equal[1] != equal[2]:
        before = re.search(r"(\d+) of the (\d+) windows that had come before a host was killed are among them", text)
        after = re.search(r"(\d+) windows after them equal the logs again", text)
        anew = re.search(r"([\d,]+) logical nodes begun anew", text)
        assert before is not None, text
        assert after is not None, text
        assert anew is not None, text
        assert before[1] == before[2] or re.search(r"left out at the job's entry|were too slow", text), text
        assert int(before[2]) >= 5, text
        assert int(after[1]) >= 1, text
        assert 0 < int(anew[1].replace(",", "")) <= 33 / 32 * int(had[1].replace(",", "")), text
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow
@pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}")
def test_each_word_counts_once_though_a_host_of_words_is_killed(temporary: Path) -> None:
    """Words are guaranteed: the last list is what the logs hold, and nothing is lost."""
    text = shown("top-words", "--seconds", "20")
    assert re.search(
        r"\d\d:\d\d  host-[12] is killed \(SIGKILL\), with [\d,]+ elements in [\d,]+ logical nodes", text
    ), text
    assert re.search(r"the 10 words of the last list, with [\d,]+ of [\d,]+ uses: equal to the logs", text), text
    assert "the results say what they lack" not in text, text
    assert nothing_is_left(temporary)


@needs_proc
@pytest.mark.slow
@pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}")
def test_a_day_of_loans_goes_by_and_each_window_of_five_operators_is_that_of_the_logs(
    tmp_path: Path, temporary: Path
) -> None:
    logs = tmp_path / "logs"
    text = shown("lending", "--seconds", "20", "--keep", str(logs))
    assert re.search(r"\d\d:\d\d  lending: 24 h to \S+T00:00:00Z: [\d,]+ loans at \d+\.\d\d % on average", text), text
    agree = re.findall(r"✓ (\d+) of (\d+) windows of (op\d) \(\w+, .+\) agree", text)
    assert [name for _, _, name in agree] == ["op1", "op2", "op3", "op4", "op5"], text
    assert all(same == all_ for same, all_, _ in agree)
    assert min(int(all_) for _, all_, _ in agree) >= 150, text  # those of 10 minutes, of 25 hours
    merged = re.search(r"([\d,]+) states were merged for windows of several panes; these have ([\d,]+)", text)
    assert merged is not None, text
    states, panes = (int(number.replace(",", "")) for number in merged.groups())
    assert 0 < 2 * states < panes, text
    lines = [json.loads(line) for log in logs.glob("shop-*/events.json") for line in log.read_text().splitlines()]
    rated = sum(line["amount"] > 0 and line["lendingTime"] > 0 for line in lines)
    assert f"servers' own logs, {rated:,} applications with an interest rate:" in text, text
    assert nothing_is_left(temporary)


@pytest.mark.slow
def test_results_with_a_limit_are_judged_by_what_they_tell_of_themselves(temporary: Path) -> None:
    """The machine decides whether they are in time: the exit code is what the verdicts say."""
    finished = subprocess.run(
        [*COMMAND, "latency", "--seconds", "12"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    text = finished.stdout
    assert finished.returncode == ("✗" in text), (text, finished.stderr)
    assert len(re.findall(r"^  [✓✗] ", text, re.MULTILINE)) == 3, text
    results = re.search(r"(\d+) of (\d+) results were in time: ", text)
    assert results is not None, text
    assert int(results[2]) >= 5, text
    assert all(f" {phase} " in text for phase in ("tail", "seal wait", "uplink", "combine", "commit", "deliver")), text
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []


def test_a_demo_that_is_not_there_or_too_short_is_refused() -> None:
    for words, said in {
        ("figure2",): "elf: figure2: there is no such demo; there are kmeans, micro_promotion,",
        ("opo", "--seconds", "10"): "elf: --seconds 10 is too short for a few comparisons: 20 at least",
        ("lending", "--seconds", "10"): "elf: --seconds 10 is too short for a day: 20 at least",
        ("spam-campaign", "--seconds", "20"): "elf: --seconds 20 is too short for these jobs: 30 at least",
    }.items():
        refused = elf("demo", *words)
        refused.refuses(2)
        assert refused.err.startswith(said)


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = elf("demo", "--keep", str(tmp_path / "file" / "logs"))
    assert (refused.code, refused.err.startswith("elf: --keep")) == (1, True)
