"""Reads the configuration of a running agent again, on a signal or for a client, and puts in force what can be."""

from __future__ import annotations

from collections.abc import Callable

import trio

from agent import log
from agent.configuration.changes import config_changes
from agent.configuration.config import Config, ConfigError, load_config
from agent.control.messages import ConfigStatus, Reloaded

Apply = Callable[[Config, Config], None]
"""Puts a configuration in force in the place of the one before, which comes first."""


class ConfigReload:
    """The configuration in force. `generation` counts those that were: it is 1 from the start.

    A configuration with faults changes nothing. `began` is called at the beginning of each reload, and `ended` with its
    outcome in a few words.
    """

    def __init__(
        self,
        config: Config,
        apply: Apply,
        began: Callable[[], None] = lambda: None,
        ended: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self.config = config
        self.generation = 1
        self._started = config
        self._apply = apply
        self._began = began
        self._ended = ended
        self._waiting: tuple[str, ...] = ()
        self._turn = trio.Lock()

    @property
    def status(self) -> ConfigStatus:
        """The generation, and the changes that wait for a restart."""
        return ConfigStatus(str(self.config.path), self.generation, list(self._waiting))

    async def reload(self, asked_by: str) -> Reloaded:
        """Reads the files and puts them in force, or says what is wrong with them; one reload after the other."""
        async with self._turn:
            self._began()
            try:
                reloaded = await self._reload(asked_by)
            except BaseException:
                self._ended("the reload of the configuration failed")
                raise
            self._ended(_outcome(reloaded))
            return reloaded

    async def _reload(self, asked_by: str) -> Reloaded:
        try:
            new = await trio.to_thread.run_sync(load_config, self.config.path)
        except ConfigError as error:
            faults = list(error.lines)
            log.warn("configuration not reloaded", asked_by=asked_by, faults=faults, generation=self.generation)
            return Reloaded(self.generation, faults=faults)
        changes, before = config_changes(self._started, self.config, new), self.config
        self.config, self._waiting = changes.config, changes.waiting
        self.generation += 1
        self._apply(before, changes.config)
        applied, waiting = list(changes.applied), list(changes.waiting)
        log.info(
            "configuration reloaded", asked_by=asked_by, generation=self.generation, changes=applied, restart=waiting
        )
        return Reloaded(self.generation, applied, waiting)


def _outcome(reloaded: Reloaded) -> str:
    if reloaded.faults:
        more = f", and {len(reloaded.faults) - 1} more" if len(reloaded.faults) > 1 else ""
        return f"configuration not reloaded: {reloaded.faults[0]}{more}"
    restart = f", {len(reloaded.restart)} need a restart" if reloaded.restart else ""
    return f"configuration {reloaded.generation}: {len(reloaded.changes)} changes{restart}"
