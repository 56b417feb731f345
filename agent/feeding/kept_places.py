"""Stores how far the logs of jobs with keyed elements are safe, in one file, and reads it at the next start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from agent.durable_files import write_durably
from agent.feeding.reading_ledger import Files, ReadTo
from agent.runtime.keyed.logical_nodes import NONE_BEGUN, BegunNodes
from agent.runtime.keyed.reading_progress import KeptPlace
from agent.runtime.model.epoch import JobTerm
from agent.sources.file.finding import Identity
from agent.sources.file.followed_file import ReadUpTo
from overlay import Id

STORE_S = 0.5
"""Interval at which places are stored, at most, if they have changed."""
BYTES_MAX = 16 << 20
VERSION = 1


@dataclass(frozen=True, slots=True)
class _Stored:
    """A kept place as it is in the file."""

    app_id: str
    born_ms: int
    stream: str
    incarnation: int
    files: list[ReadUpTo]
    counts: list[tuple[Identity, int]]
    begun: BegunNodes = NONE_BEGUN


@dataclass(frozen=True, slots=True)
class _Content:
    version: int
    places: list[_Stored]


def read_kept_places(path: Path, warn: Callable[[str, str], None]) -> list[KeptPlace]:
    """The places that the process before has stored; none where there is no such file, or it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
        content = msgspec.json.decode(data, type=_Content)
        if content.version != VERSION:
            raise msgspec.ValidationError(f"version {content.version}")
        return [_kept(one) for one in content.places]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        warn("elements of jobs read their logs on from the end", str(error))
        return []


def _kept(stored: _Stored) -> KeptPlace:
    term = JobTerm(Id(int(stored.app_id, 16)), stored.born_ms)
    return KeptPlace(term, stored.stream, stored.incarnation, tuple(stored.files), dict(stored.counts), stored.begun)


class KeptPlaces:
    """Stores places beside the event loop. `places` gives those of now; `stored` gets them once they are in store, or
    cannot be: reading waits for its beginning alone. `warn` gets what the disk does not take."""

    def __init__(
        self,
        path: Path,
        places: Callable[[], list[KeptPlace]],
        stored: Callable[[list[KeptPlace]], None],
        warn: Callable[[str, str], None],
    ) -> None:
        self._path = path
        self._places, self._tell = places, stored
        self._warn = warn
        self._stored: bytes | None = None

    async def run(self) -> None:
        """Stores what changes, until it is cancelled."""
        while True:
            await trio.sleep(STORE_S)
            places = self._places()
            found = [_as_stored(one) for one in places]
            if not found and self._stored is None:
                continue  # nothing was ever kept
            content = msgspec.json.encode(_Content(VERSION, found))
            if content != self._stored:
                fault = await trio.to_thread.run_sync(self._write, content)
                if fault is None:
                    self._stored = content
                else:
                    self._warn("places in logs of keyed elements are not kept", fault.strerror or str(fault))
            self._tell(places)

    def _write(self, content: bytes) -> OSError | None:
        try:
            write_durably(self._path, content)
        except OSError as error:
            return error
        return None


def _as_stored(place: KeptPlace) -> _Stored:
    reading = place.reading
    files: Files = reading.files if isinstance(reading, ReadTo) else reading if isinstance(reading, tuple) else ()
    counts = [(file, count) for file, count in place.counts.items() if isinstance(file, tuple)]
    term = place.term
    about = place.stream, place.incarnation, list(files), counts, place.begun
    return _Stored(f"{term.app_id:032x}", term.born_ms, *about)
