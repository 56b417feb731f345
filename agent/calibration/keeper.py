"""Calibrates the machine once, when the agent has settled, at a low priority and beside the agent's loop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import trio

from agent import log
from agent.calibration.machine import Machine, MachineCosts, keep_costs, measured_costs, read_costs

SETTLE_S = 5.0
"""Delay after the agent's start before anything is measured."""
NICENESS = 10
"""Niceness of the thread that measures."""


class CalibrationKeeper:
    """The costs of work on this machine: those that were kept, or that are measured anew where these do not fit.

    `elf`: the version of ELF. `worked` tells the seconds for which the process has worked.
    """

    def __init__(self, path: Path, elf: Callable[[], str], worked: Callable[[], float]) -> None:
        self._path, self._elf, self._worked = path, elf, worked
        self.costs: MachineCosts | None = None
        """None until they are known."""

    async def run(self) -> None:
        """Finds the costs, and waits until it is cancelled."""
        await trio.sleep(SETTLE_S)
        await trio.to_thread.run_sync(self.calibrate, abandon_on_cancel=True)
        await trio.sleep_forever()

    def calibrate(self) -> None:
        """Reads the costs, or measures and keeps them. Blocks for a second or two."""
        machine = Machine.here(self._elf())
        self.costs, why = read_costs(self._path, machine)
        if self.costs is None:
            # A thread of its own: its priority is not raised again.
            thread = threading.Thread(target=self._measure, args=(machine, why), name="calibration", daemon=True)
            thread.start()
            thread.join()

    def _measure(self, machine: Machine, why: str) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        begun_s = self._worked()
        try:
            self.costs = costs = measured_costs(machine, self._path.parent, self._worked, time.perf_counter)
        except Exception as error:  # a thread's own errors would end up on standard error alone
            log.failed("machine not calibrated", error)
            return
        log.info("machine calibrated", why=why, cpu=machine.cpu, used_ms=round(1000 * (self._worked() - begun_s)))
        try:
            keep_costs(self._path, costs)
        except OSError as error:
            log.warn("calibration is not kept", why=error.strerror or str(error))
