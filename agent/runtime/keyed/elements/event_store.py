"""Events that wait for others of their key: in the order of arrival, and to be found by key and time.

They are indexed in runs, each in the order of hash and time. A batch is a run; a run is merged with the one before
while that is hardly longer, so that there are O(log n) runs, and nobody's key or time makes looking up slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

import cbt
from agent.runtime.keyed.elements.runtime import EVENT_TIME, NODE
from agent.runtime.keyed.elements.slots import SECRET, Mask, Rows, Values

_CHUNKS_MAX = 64
_ROWS_MIN = 1 << 10


class Keys(NamedTuple):
    """The keys of some events: two hashes of each under secrets of the process, and whether no part is NULL."""

    hashes: Values
    checks: Values
    whole: Mask

    @classmethod
    def of(cls, rows: pl.DataFrame, names: Sequence[str]) -> Keys:
        keys = rows[:, list(names)]
        whole = np.ones(rows.height, np.bool_)
        for column in keys.get_columns():
            if column.null_count():
                whole &= column.is_not_null().to_numpy()
        return cls(*cbt.key_identities(keys, SECRET), whole)

    def at(self, rows: Rows) -> Keys:
        return Keys(self.hashes[rows], self.checks[rows], self.whole[rows])


class SortedRun(NamedTuple):
    """Events in the order of hash and time, each with its place in the order of arrival."""

    hashes: Values
    times: Values
    places: Rows

    @classmethod
    def of(cls, hashes: Values, times: Values, places: Rows) -> SortedRun:
        """Sorts events: in O(n) if they are of two runs, and of the same key in the order of their times."""
        order = np.argsort(hashes, kind="stable")
        run = cls(hashes[order], times[order], places[order])
        if ((run.hashes[1:] == run.hashes[:-1]) & (run.times[1:] < run.times[:-1])).any():
            order = np.lexsort((times, hashes))
            run = cls(hashes[order], times[order], places[order])
        return run

    def ranges(self, hashes: Values, earliest: Values, latest: Values) -> tuple[Rows, Rows, Rows]:
        """The ranges of events with a hash and a time from one to another: the numbers of the questions that have any,
        and where the range of each begins and ends. O(questions · log n)."""
        if not len(self.hashes):
            return np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.intp)
        first = np.searchsorted(self.hashes, hashes)
        found = np.flatnonzero(self.hashes[np.minimum(first, len(self.hashes) - 1)] == hashes)
        first = first[found]
        end = np.searchsorted(self.hashes, hashes[found], side="right")
        start = self._bisect(first, end, earliest[found])
        stop = self._bisect(start, end, latest[found] + 1)
        some = start < stop
        return found[some], start[some], stop[some]

    def _bisect(self, low: Rows, high: Rows, times: Values) -> Rows:
        """The first place of each range whose time is not before one. O(ranges · log n)."""
        low, high = low.copy(), high.copy()
        while (open_ := low < high).any():
            middle = (low + high) // 2
            before = open_ & (self.times[np.minimum(middle, len(self.times) - 1)] < times)
            low = np.where(before, middle + 1, low)
            high = np.where(open_ & ~before, middle, high)
        return low


class EventStore:
    """Events of one side of a join. A place is an event's, until `compact` moves it.

    `next_id` is the number that the next event gets; numbers are unique among the events of a logical node.
    """

    def __init__(self, schema: pl.Schema, names: Sequence[str]) -> None:
        self.next_id = 0
        self.live = 0
        self._names, self._schema = names, schema
        self._chunks: list[pl.DataFrame] = []
        self._rows = 0
        self._arrays: dict[str, Values] = {}
        self._runs: list[SortedRun] = []
        self._clear()

    def _clear(self) -> None:
        kinds = {"hash": np.uint64, "check": np.uint64, "time": np.int64, "node": np.uint16, "id": np.int64}
        flags = {"whole": np.bool_, "is live": np.bool_, "is matched": np.bool_}
        self._arrays = {name: np.zeros(_ROWS_MIN, kind) for name, kind in (kinds | flags).items()}
        self._chunks, self._runs, self._rows, self.live = [], [], 0, 0

    def append(self, rows: pl.DataFrame, keys: Keys, ids: Values | None = None) -> Rows:
        """Takes events, in the columns of the schema; returns their places."""
        if not rows.height:
            return np.empty(0, np.intp)
        start, end = self._rows, self._rows + rows.height
        if end > len(self._arrays["time"]):
            self._resize(max(end, 2 * len(self._arrays["time"])))
        if ids is None:
            ids = np.arange(self.next_id, self.next_id + rows.height)
        self.next_id = max(self.next_id, int(ids.max()) + 1)
        given = {"hash": keys.hashes, "check": keys.checks, "whole": keys.whole, "id": ids}
        given |= {"time": rows[EVENT_TIME].to_numpy(), "node": rows[NODE].to_numpy()}
        for name, values in given.items():
            self._arrays[name][start:end] = values
        self._arrays["is live"][start:end], self._arrays["is matched"][start:end] = True, False
        self._rows, self.live = end, self.live + rows.height
        self._chunks.append(cbt.own_strings(rows))
        places = np.arange(start, end)
        self._index(places[keys.whole])
        return places

    def has_any(self, keys: Keys, earliest: Values, latest: Values) -> Mask:
        """Whether there is an event of each key with a time from one to another. O(n · log² events)."""
        found = np.zeros(len(keys.hashes), np.bool_)
        left = np.flatnonzero(keys.whole)
        left = left[np.argsort(keys.hashes[left])]  # neighbours look in the same places
        for run in reversed(self._runs):
            at, start, stop = run.ranges(keys.hashes[left], earliest[left], latest[left])
            same = self._arrays["check"][run.places[start]] == keys.checks[left[at]]
            for odd in np.flatnonzero(~same):  # two keys share a hash: not in this world's lifetime
                places = run.places[start[odd] : stop[odd]]
                same[odd] = (self._arrays["check"][places] == keys.checks[left[at[odd]]]).any()
            found[left[at[same]]] = True
            left = left[~found[left]]
        return found

    def pairs(self, keys: Keys, earliest: Values, latest: Values, pairs_max: int) -> tuple[Rows, Rows, int]:
        """Pairs of a row of keys and the place of an event with that key and a time from one to another, in this order;
        and how many more there are than may be."""
        rows, places = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
        asked, more = np.flatnonzero(keys.whole), 0
        for run in self._runs:
            at, start, stop = run.ranges(keys.hashes[asked], earliest[asked], latest[asked])
            counts = stop - start
            room = pairs_max - sum(map(len, rows))
            fits = np.cumsum(counts) <= room
            more += int(counts[~fits].sum())
            at, start, counts = at[fits], start[fits], counts[fits]
            rows.append(np.repeat(asked[at], counts))
            places.append(run.places[expanded(start, counts)])
        row, place = np.concatenate(rows), np.concatenate(places)
        same = (self._arrays["check"][place] == keys.checks[row]) & self._arrays["is live"][place]
        row, place = row[same], place[same]
        order = np.lexsort((place, row))
        return row[order], place[order], more

    def reached(self, keys: Keys, earliest: Values, latest: Values) -> Rows:
        """The places of events that any of some keys and times reach, each once. O(n · log² events + places)."""
        found = [np.empty(0, np.intp)]
        asked = np.flatnonzero(keys.whole)
        asked = asked[np.argsort(keys.hashes[asked])]
        for run in self._runs:
            _, start, stop = run.ranges(keys.hashes[asked], earliest[asked], latest[asked])
            if len(start):
                order = np.argsort(start)
                start, reach = start[order], np.maximum.accumulate(stop[order])
                begin = np.maximum(start, np.append(0, reach[:-1]))
                found.append(run.places[expanded(begin, np.maximum(reach - begin, 0))])
        places = np.concatenate(found)
        return np.sort(places[self._arrays["is live"][places]])

    def earliest_live(self, before_ms: int) -> Rows:
        """The places of events before a time, by time, logical node and arrival."""
        places = np.flatnonzero(
            self._arrays["is live"][: self._rows] & (self._arrays["time"][: self._rows] < before_ms)
        )
        return places[np.lexsort((places, self._arrays["node"][places], self._arrays["time"][places]))]

    def oldest(self, count: int) -> Rows:
        """The places of so many events, the oldest by time."""
        return self.earliest_live(2**63 - 1)[:count]

    def remove(self, places: Rows) -> None:
        self._arrays["is live"][places] = False
        self.live = int(self._arrays["is live"][: self._rows].sum())
        if self._rows > max(2 * self.live, _ROWS_MIN):
            self.keep(self._arrays["is live"][: self._rows].copy())

    def keep(self, chosen: Mask) -> None:
        """Keeps the chosen events that are live, which moves them. O(events · log events)."""
        places = np.flatnonzero(chosen & self._arrays["is live"][: self._rows])
        rows, arrays = cbt.own_strings(self.rows(places)), {name: array[places] for name, array in self._arrays.items()}
        next_id = self.next_id
        self._clear()
        self.append(rows, Keys(arrays["hash"], arrays["check"], arrays["whole"]), arrays["id"])
        self._arrays["is matched"][: self._rows] = arrays["is matched"]
        self.next_id = next_id

    def match(self, places: Rows) -> Rows:
        """Marks events as matched; returns those that were not."""
        new = np.unique(places[~self._arrays["is matched"][places]])
        self._arrays["is matched"][new] = True
        return new

    def array(self, name: str) -> Values:
        """One of "time", "node", "id", "is live", "is matched" of all places."""
        return self._arrays[name][: self._rows]

    def keys_at(self, places: Rows) -> Keys:
        return Keys(*(self._arrays[name][places] for name in ("hash", "check", "whole")))

    def rows(self, places: Rows) -> pl.DataFrame:
        """The events at some places. O(places), amortised."""
        if len(self._chunks) > _CHUNKS_MAX or not self._chunks:
            self._chunks = [pl.concat([pl.DataFrame(schema=self._schema), *self._chunks], rechunk=True)]
        return pl.concat(self._chunks, rechunk=False)[places.astype(np.uint32)]

    @property
    def memory_bytes(self) -> int:
        arrays = sum(array.nbytes for array in self._arrays.values())
        runs = sum(array.nbytes for run in self._runs for array in run)
        return arrays + runs + sum(int(chunk.estimated_size()) for chunk in self._chunks)

    def _index(self, places: Rows) -> None:
        if not len(places):
            return
        run = SortedRun.of(self._arrays["hash"][places], self._arrays["time"][places], places)
        while self._runs and len(self._runs[-1].places) <= 2 * len(run.places):
            older = self._runs.pop()
            run = SortedRun.of(*(np.concatenate(both) for both in zip(older, run, strict=True)))
        self._runs.append(run)

    def _resize(self, size: int) -> None:
        for name, array in self._arrays.items():
            larger = np.zeros(size, array.dtype)
            larger[: self._rows] = array[: self._rows]
            self._arrays[name] = larger


def expanded(starts: Rows, counts: Rows) -> Rows:
    """The numbers of ranges, one range after the other. O(numbers)."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Rows = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return numbers


class Firsts:
    """The first row of a batch, of those with a key and a time from one to another. O(n log n) to make."""

    def __init__(self, keys: Keys, times: Values) -> None:
        rows = np.flatnonzero(keys.whole)
        self._run = SortedRun.of(keys.hashes[rows], times[rows], rows)
        self._levels = list(self._doubled(self._run.places))

    def of(self, keys: Keys, earliest: Values, latest: Values) -> Rows:
        """The first row for each key and time, all of which have some."""
        _, start, stop = self._run.ranges(keys.hashes, earliest, latest)
        level = np.frexp((stop - start).astype(np.float64))[1] - 1  # the greatest power of two within the range
        first = np.empty(len(start), np.intp)
        for number, firsts in enumerate(self._levels):
            here = level == number
            first[here] = np.minimum(firsts[start[here]], firsts[stop[here] - (1 << number)])
        return first

    @staticmethod
    def _doubled(rows: Rows) -> Iterator[Rows]:
        """The least row of the range of 1, 2, 4 ... from each on."""
        length = 1
        while len(rows):
            yield rows
            rows = np.minimum(rows[:-length], rows[length:]) if len(rows) > length else rows[:0]
            length *= 2
