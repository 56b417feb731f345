"""What is wrong with sources, said once while it lasts."""

from collections.abc import Mapping

from agent.sources.errors import SourceError

LINES_MAX = 32
"""Lines said at once; of more, only how many they are."""


class Faults:
    """Turns what is wrong now, looked at again and again, into lines that say what is new of it."""

    def __init__(self) -> None:
        self._standing: dict[str, str] = {}
        self._lines: list[str] = []
        self._more = 0

    def __len__(self) -> int:
        """How much is wrong now."""
        return len(self._standing)

    def update(self, standing: Mapping[str, str]) -> None:
        """What is wrong now, by file: what was not so before will be said."""
        for file, what in standing.items():
            if self._standing.get(file) != what:
                self.tell(file, what)
        self._standing = dict(standing)

    def tell(self, file: str, what: str) -> None:
        """Says something that has happened."""
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
