"""Gathers the events that elements emit, and packs them by type."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple

from agent.programs.calls import Emission
from elf.elements.event import TIME, ElementError, EventOptions, event_options
from elf.program.element_columns import column_bytes, packed

END = object()
"""Stands in the list of emitted events after those of one call of an element."""
EVENTS_PACKED_MAX = 1 << 14
"""Upper bound on the events of one `Emission`."""
PACKED_BYTES_MAX = 1 << 20
"""Upper bound on the bytes of one `Emission` of several events."""
EVENT_BYTES_MAX = 4 << 20
"""Upper bound on the bytes of one event."""


class _Events(NamedTuple):
    """Emitted events with the number of the call that each comes from."""

    events: list[Any]
    origins: Sequence[int]


class EmittedEvents:
    """Packs the events of one element. `allowed`: the types that it says it emits."""

    def __init__(self, element: str, allowed: Collection[str]) -> None:
        self._element = element
        self._allowed = allowed
        self._getters: dict[type, tuple[EventOptions, list[attrgetter[Any]]]] = {}

    def packed(
        self, emitted: list[Any], calls: range, times: Sequence[int], nodes: Sequence[int] | None
    ) -> Iterator[Emission]:
        """Packs what was emitted in calls of these numbers: events, with `END` after those of each call.

        `times`: the time of each call, from number 0 on; `nodes`: the node of each, where its number says nothing.
        Raises ElementError for what is no event, or of a type that the element does not say.
        """
        if len(emitted) == len(calls):
            return
        whole = _split(emitted, calls)
        kinds = {*map(type, whole.events)}
        for kind in sorted(kinds, key=lambda kind: kind.__name__) if len(kinds) > 1 else kinds:
            of_kind = whole if len(kinds) == 1 else _of_kind(whole, kind)
            for start in range(0, len(of_kind.events), EVENTS_PACKED_MAX):
                end = start + EVENTS_PACKED_MAX
                piece = _Events(of_kind.events[start:end], of_kind.origins[start:end])
                yield from self._bounded(kind, piece, times, nodes)

    def _bounded(
        self, kind: type, emitted: _Events, times: Sequence[int], nodes: Sequence[int] | None
    ) -> Iterator[Emission]:
        """Packs events of one type, in halves as long as they are too large."""
        made = self._packed(kind, emitted, times, nodes)
        try:
            size, count = emission_bytes(made), made.rows
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ElementError(f"emits a {made.type} that cannot be sent: {error}") from None
        if size > PACKED_BYTES_MAX and count > 1:
            for part in (slice(0, count // 2), slice(count // 2, count)):
                yield from self._bounded(kind, _Events(emitted.events[part], emitted.origins[part]), times, nodes)
        elif size > EVENT_BYTES_MAX:
            raise ElementError(f"emits a {made.type} of {size:,} bytes: an event may have {EVENT_BYTES_MAX:,}")
        else:
            yield made

    def _packed(self, kind: type, emitted: _Events, times: Sequence[int], nodes: Sequence[int] | None) -> Emission:
        found = self._getters.get(kind)
        if found is None:
            found = self._getters[kind] = self._known(kind)
        options, getters = found
        events, origins = emitted
        *values, own = ([*map(getter, events)] for getter in getters)
        own_times = None
        if own.count(None) < len(own):
            if any(type(time) not in (int, type(None)) for time in own):
                raise ElementError(f"emits a {options.name} whose {TIME} is no int: it is in ms since 1970")
            own_times = [times[at] if time is None else time for time, at in zip(own, origins, strict=True)]
        elif nodes is not None:
            own_times = [times[at] for at in origins]
        same = nodes is None and isinstance(origins, range) and origins == range(len(times))
        return Emission(
            options.name,
            len(events),
            {name: packed(one, field) for (name, field), one in zip(options.fields, values, strict=True)},
            None if same or nodes is not None else array("I", origins).tobytes(),
            None if nodes is None else array("H", [nodes[at] for at in origins]).tobytes(),
            None if own_times is None else array("q", own_times).tobytes(),
        )

    def _known(self, kind: type) -> tuple[EventOptions, list[attrgetter[Any]]]:
        options = event_options(kind)
        if options is None:
            raise ElementError(
                f"emits {_article(kind.__name__)}, which is no event: decorate its class with @elf.event"
            )
        if options.name not in self._allowed:
            known = ", ".join(self._allowed) or "none"
            raise ElementError(
                f"emits {_article(options.name)}, and the types that its class names are {known}: "
                f"write emits = [{', '.join((*self._allowed, options.name))}] in the class"
            )
        return options, [attrgetter(name) for name in (*dict(options.fields), TIME)]


def emission_bytes(emission: Emission) -> int:
    """The size of an emission, encoded, at most."""
    return sum(map(column_bytes, emission.columns.values()))


def _split(emitted: list[Any], calls: range) -> _Events:
    """Tells events from the marks between them. O(n), in C where each call has emitted one event."""
    if len(emitted) == 2 * len(calls) and emitted[1::2].count(END) == len(calls):
        return _Events(emitted[::2], calls)
    events: list[Any] = []
    origins: list[int] = []
    start = 0
    for number, end in zip(calls, [place for place, one in enumerate(emitted) if one is END], strict=True):
        events += emitted[start:end]
        origins += repeat(number, end - start)
        start = end + 1
    return _Events(events, origins)


def _of_kind(emitted: _Events, kind: type) -> _Events:
    pairs = [(one, origin) for one, origin in zip(*emitted, strict=True) if type(one) is kind]
    return _Events([one for one, _ in pairs], [origin for _, origin in pairs])


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
