"""The workers that were chosen for rows of agents' logs, as disks keep them."""

from __future__ import annotations

from collections.abc import Collection

from agent.runtime.model.epoch import JobTerm


class KeptChoices:
    """What an agent has in store of the workers of rows, of one job."""

    def __init__(self) -> None:
        self.data = b""

    def read(self) -> bytes:
        return self.data

    def append(self, data: bytes) -> bool:
        self.data += data
        return True

    def replace(self, data: bytes) -> bool:
        self.data = data
        return True


class KeptChoicesOfJobs:
    """What one agent has in store, of all jobs."""

    def __init__(self) -> None:
        self._jobs: dict[JobTerm, KeptChoices] = {}

    def of(self, term: JobTerm) -> KeptChoices:
        return self._jobs.setdefault(term, KeptChoices())

    def retain(self, terms: Collection[JobTerm]) -> None:
        self._jobs = {term: kept for term, kept in self._jobs.items() if term in terms}
