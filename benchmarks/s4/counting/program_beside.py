"""A job's program in the process of its agent: calls and answers are written and read as for a pipe, without one."""

from collections import deque
from collections.abc import Callable

from agent.programs import calls
from agent.programs.calls import ProgramPosition
from agent.programs.element_graph import ElementGraph
from agent.runtime.keyed.elements.code import CodeRuntime
from agent.runtime.keyed.elements.runtime import ElementRuntime
from benchmarks.race import BenchmarkError
from elf.program.runner import Runner

_PLACE = ProgramPosition(True, "", [], 0, 1)


class ProgramBeside:
    """Runs the elements of a job's code. `later` is given what answers one call, to be done after what is under way."""

    def __init__(self, code: bytes, later: Callable[[Callable[[], object]], object]) -> None:
        self._later = later
        self._said: list[bytes] = []
        self._calls: deque[calls.ProgramCall] = deque()
        self._runner = Runner(self)
        self._runner(calls.encode(calls.LoadCode(_PLACE, "job", "agent", "1", code)))
        (loaded,) = self._acts()
        if not isinstance(loaded, calls.CodeLoaded) or loaded.about.elements is None:
            raise BenchmarkError(f"a program has no elements: {loaded}")
        self.graph: ElementGraph = loaded.about.elements
        types = {one.name: one for one in self.graph.types}
        self._code = {
            one.name: CodeRuntime(one, types, self._call, lambda: _PLACE, number << 40)
            for number, one in enumerate(self.graph.elements)
        }
        self.runtimes: dict[str, ElementRuntime] = dict(self._code)

    # What the pipe does.

    def write(self, data: bytes) -> None:
        self._said.append(data)

    def read(self) -> bytes:
        raise EOFError

    def done(self) -> None:
        """Nobody counts."""

    def _call(self, call: calls.ProgramCall) -> bool:
        self._calls.append(call)
        self._later(self._answer)
        return True

    def _answer(self) -> None:
        self._runner(calls.encode(self._calls.popleft()))
        for act in self._acts():
            if not isinstance(act, calls.ElementsProcessed | calls.StatesTaken):
                raise BenchmarkError(f"a program says {act}")
            if not any(one.answered(act) for one in self._code.values()):
                raise BenchmarkError(f"nobody has asked for {act}")

    def _acts(self) -> list[calls.FromProgram]:
        said, self._said = self._said, []
        return [calls.read_act(one) for one in said]
