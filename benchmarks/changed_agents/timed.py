"""An agent that tells what its schedulers take: a JSON file beside its configuration, when it ends.

Each call of a method of `agent.runtime.scheduling` from elsewhere is timed; so is what reading the clock takes, which
makes the share an upper bound.
"""

import atexit
import functools
import inspect
import json
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.changed_agents import SCHEDULING_FILE, run_changed


class Stopwatch:
    """Seconds in timed calls; one within another counts once."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0
        self._is_running = False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its calls timed; of one that yields, each step."""

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            if self._is_running:
                return function(*arguments, **named)
            found = self._run(lambda: function(*arguments, **named))
            return self._steps(found) if inspect.isgenerator(found) else found

        return run

    def _steps(self, found: Iterator[Any]) -> Iterator[Any]:
        nothing = object()
        while (one := self._run(lambda: next(found, nothing))) is not nothing:
            yield one

    def _run(self, call: Callable[[], Any]) -> Any:
        self._is_running, began = True, time.perf_counter()
        try:
            return call()
        finally:
            self.seconds += time.perf_counter() - began
            self.calls += 1
            self._is_running = False


def time_schedulers() -> Stopwatch:
    """Times all methods of all classes of the package."""
    import agent.runtime.scheduling as package

    stopwatch = Stopwatch()
    for found in pkgutil.iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{found.name}")
        for kind in vars(module).values():
            if not inspect.isclass(kind) or kind.__module__ != module.__name__ or issubclass(kind, int):
                continue
            for name, function in list(vars(kind).items()):
                if inspect.isfunction(function) and not name.startswith("__"):
                    setattr(kind, name, stopwatch.timed(function))
    return stopwatch


def _time_until_the_end() -> None:
    atexit.register(_tell, time_schedulers(), Path(sys.argv[-1]).parent / SCHEDULING_FILE)


def _tell(stopwatch: Stopwatch, path: Path) -> None:
    told = {"scheduling_s": stopwatch.seconds, "calls": stopwatch.calls, "process_s": time.process_time()}
    path.write_text(json.dumps(told))


if __name__ == "__main__":
    run_changed(_time_until_the_end)
