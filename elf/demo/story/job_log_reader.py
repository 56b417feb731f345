"""Reads what a job logs while a demo runs."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import elf
from elf.client import ClientError

_LINES = 1000
ANSWER_TIMEOUT_S = 20.0
"""Generous, as web servers, visitors and agents may share two cores."""


class JobLogReader:
    """Reads the log of one job over the control socket of an agent."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._read = 0

    async def new_lines(self, socket: Path) -> list[str]:
        """The lines since the last look; none where the agent does not answer: the next look sees them."""
        with suppress(ClientError):
            async with elf.connect(socket, timeout_s=ANSWER_TIMEOUT_S) as client:
                log = await client.log(self._app, lines=_LINES)
            total = log.dropped + len(log.lines)
            fresh = log.lines[len(log.lines) - max(0, total - self._read) :]
            self._read = total
            return [line.text for line in fresh]
        return []

    async def tell_new_lines(self, socket: Path, tell: Callable[[str], None]) -> list[str]:
        """Tells each line since the last look, after the job's name; returns them without it."""
        lines = await self.new_lines(socket)
        for line in lines:
            tell(f"{self._app}: {line}")
        return lines
