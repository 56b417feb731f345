"""What processes use, as the kernel counts it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since a process began, its resident memory now and at its highest, in MB (10^6 bytes)."""

    cpu_s: float
    memory_mb: float
    memory_peak_mb: float


def usage(pid: int) -> Usage:
    """OSError where there is no such process, or no /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    now_kb, peak_kb = (int(status[name].split()[0]) for name in ("VmRSS", "VmHWM"))
    return Usage((user + system) / _TICKS_PER_S, now_kb * 1024 / 1e6, peak_kb * 1024 / 1e6)


def cpu_s(pids: Sequence[int]) -> float:
    """CPU seconds of all of them together."""
    return sum(usage(pid).cpu_s for pid in pids)


def idle_s(core: int) -> float:
    """Seconds for which nothing has run on a core since the machine was started."""
    (fields,) = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} ")]
    return (int(fields[4]) + int(fields[5])) / _TICKS_PER_S
