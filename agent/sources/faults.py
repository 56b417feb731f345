"""Reports the faults of sources, each once while it lasts."""

from collections.abc import Mapping

from agent.sources.errors import SourceError

LINES_MAX = 32
"""Upper bound on lines reported at once; further ones are counted."""


class Faults:
    """Turns the faults found by each check into lines that report the new ones."""

    def __init__(self) -> None:
        self._standing: dict[str, str] = {}
        self._lines: list[str] = []
        self._more = 0

    def __len__(self) -> int:
        """The number of faults now."""
        return len(self._standing)

    def update(self, standing: Mapping[str, str]) -> None:
        """Sets the faults of now, by file; those that are new are reported."""
        for file, what in standing.items():
            if self._standing.get(file) != what:
                self.report(file, what)
        self._standing = dict(standing)

    def report(self, file: str, what: str) -> None:
        """Reports an event, whether it lasts or not."""
        if len(self._lines) < LINES_MAX:
            self._lines.append(str(SourceError(file, what)))
        else:
            self._more += 1

    def drain(self) -> list[str]:
        lines, self._lines = self._lines, []
        if self._more:
            lines.append(f"and {self._more:,} more like these")
            self._more = 0
        return lines
