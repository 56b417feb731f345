"""Runs the code of a job's elements in this process, with its rights, for `elf local --job`."""

from __future__ import annotations

from collections.abc import Callable

from agent.programs import calls
from agent.runtime.keyed.element_program import ALONE
from elf.program.runner import Runner


class _Here:
    """The wire of code that runs here: what it says is kept until the call is over."""

    def __init__(self) -> None:
        self.said: list[bytes] = []

    def read(self) -> bytes:
        raise EOFError("a job over files has no other jobs to ask")

    def write(self, data: bytes) -> None:
        self.said.append(data)

    def done(self) -> None:
        """Marks the end of a call, which is known here."""


def code_here(source: bytes, app: str, log: Callable[[str], None]) -> Callable[[bytes], list[bytes]]:
    """Loads a job's file; returns what carries out a call of its agent, and yields what the code says meanwhile: that
    it has failed, where it could not be loaded. `log` gets the lines that it writes to the job's log.
    """
    wire = _Here()
    runner = Runner(wire)

    failure: list[bytes] = []

    def run(payload: bytes) -> list[bytes]:
        if failure:
            return failure
        runner(payload)
        said, wire.said = wire.said, []
        if len(said) > 1:
            acts = [calls.read_act(one) for one in said[:-1]]  # an answer comes last
            for act in acts:
                if isinstance(act, calls.WriteLog):
                    log(act.text)
        return said

    loaded = run(calls.encode(calls.LoadCode(ALONE, app, "local", "", source)))
    failure += [one for one in loaded if isinstance(calls.read_act(one), calls.CallbackFailed)]
    return run
