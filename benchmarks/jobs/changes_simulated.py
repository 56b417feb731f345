"""How soon simulated agents run a change of a job (Figure 10b): a notice, a filter, code in Python."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from agent import Updated
from benchmarks.overlay.lines import quantile, size
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from overlay import Id

from . import real_programs
from .fleets import program
from .lines import TARGET_AGENTS, at_most
from .simulated_agents import STREAM, SimulatedAgents, runs, without_collector
from .simulated_programs import SimulatedPrograms

_SIMULATED = "simulated, links of 0.5 ms"
NOTICE = f"{_SIMULATED}, a master's word (multicast) until the code of all agents has it"
FILTER = f"{_SIMULATED}, another filter until all agents run it"
FILTER_TOLD = f"{_SIMULATED}, another filter until all agents have acknowledged that they run it"
CODE = f"{_SIMULATED}, with the times of real program starts, other Python code until all agents run it"
CODE_TOLD = f"{CODE} and have acknowledged that"
CURVES = (NOTICE, FILTER, FILTER_TOLD, CODE, CODE_TOLD)
TARGETS_MS = {NOTICE: 10.0, FILTER: 210.0, CODE: 600.0}
"""For the fleet of the paper."""
_SELECT = f"SELECT product, SUM(clicks) AS clicks FROM {STREAM}"
_GROUPS = "GROUP BY product WINDOWING 10 SECONDS"


@without_collector()
def run(agents: int, changes: int) -> list[Comparison]:
    """One fleet with two jobs, one of them in Python, each changed so often and once before, for practice."""
    code = program("notices", COUNT=1_000_000)
    times = real_programs.measure(code)
    progress(f"a program's start: {1000 * quantile(times.start_s, 0.5):.0f} ms, a word to it: "
             f"{1000 * times.wire_s:.2f} ms")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as folder:
        programs = SimulatedPrograms(1, Path(folder), times)
        fleet = SimulatedAgents(1, agents, programs)
        progress(f"{agents:,} agents have joined")
        filters = [_change_filter(fleet, key, number) for key in [_job(fleet)] for number in range(1, changes + 2)]
        progress(f"filters: {filters}")
        notices, codes = _of_code(fleet, programs, code, changes)
    place = size(agents)
    columns = {NOTICE: notices, **_columns((FILTER, FILTER_TOLD), filters), **_columns((CODE, CODE_TOLD), codes)}
    return [
        at_most(
            f"{label}: {place}",
            1000 * quantile(seconds, 0.5),
            "ms",
            TARGETS_MS.get(label) if agents == TARGET_AGENTS else None,
        )
        for label, seconds in columns.items()
    ]


def _columns(labels: tuple[str, str], times: list[tuple[float, float]]) -> dict[str, list[float]]:
    ran, told = zip(*times[1:], strict=True)
    return {labels[0]: list(ran), labels[1]: list(told)}


def _job(fleet: SimulatedAgents) -> Id:
    return fleet.run_job(f"{_SELECT} {_GROUPS}", "clicks")


def _change_filter(fleet: SimulatedAgents, key: Id, number: int) -> tuple[float, float]:
    return change(fleet, key, number + 1, lambda: fleet.update(key, f"{_SELECT} WHERE clicks > {number} {_GROUPS}"))


def change(fleet: SimulatedAgents, key: Id, version: int, ask: Callable[[], None]) -> tuple[float, float]:
    """Seconds until all agents run a version that is asked for, and until whoever asked for that knows it."""
    fleet.take_replies()
    ask()
    ran_s = fleet.run_until_all(lambda agent: runs(agent, key, version), "not all run the change")
    answers: list[Updated] = []

    def answered() -> bool:
        answers.extend(one for one in fleet.take_replies() if isinstance(one, Updated))
        return bool(answers)

    told_s = ran_s + fleet.run_until(answered, "nobody is told of the change")
    if (answers[0].agents, answers[0].expected) != (len(fleet), len(fleet)):
        raise BenchmarkError(f"{answers[0].agents} of {answers[0].expected} agents have acknowledged the change")
    fleet.run(1.0)
    return ran_s, told_s


def _of_code(
    fleet: SimulatedAgents, programs: SimulatedPrograms, code: bytes, changes: int
) -> tuple[list[float], list[tuple[float, float]]]:
    """Of notices, and of changes of the code that says them."""
    text, key, bundle = programs.sign("notices", code)
    fleet.run_job(text, "notices", (key, bundle))
    progress("all run a job in Python")
    notices = [_notice(fleet, programs) for _ in range(changes)]
    progress(f"notices: {notices}")
    codes = []
    for version in range(2, changes + 3):
        after = (bundle.seal.counter, bundle.digest(key))
        text, _, bundle = programs.sign("notices", code + f"# version {version}\n".encode(), after)
        codes.append(change(fleet, key, version, lambda: fleet.update(key, text, bundle)))  # noqa: B023 - called at once
    progress(f"codes: {codes}")
    return notices, codes


def _notice(fleet: SimulatedAgents, programs: SimulatedPrograms) -> float:
    """Seconds from when the master's code says the next word until the last agent's code has it."""
    programs.multicasts.clear()
    fleet.run_until(lambda: bool(programs.multicasts), "the master says nothing")
    programs.heard.clear()
    fleet.run_until(lambda: len(programs.heard) == len(fleet), "not all have heard the master's word")
    return max(programs.heard) - programs.multicasts[0]
