"""One class of elements, configured once, and its clones: an element for each value of the key (S4, section II.C)."""

from __future__ import annotations

import copy
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from agent.programs.calls import SEPARATOR, PackedColumn, States
from agent.programs.element_graph import Element
from elf.elements.element import PE, StateAttribute, StateError, is_json
from elf.elements.event import ElementError
from elf.program.code import shown
from elf.program.element_columns import column_bytes, packed, raw_texts, unpacked

STATE_BYTES_MAX = 1 << 20
"""Upper bound on the state of one element, encoded."""
STATES_PACKED_MAX = 1 << 13
"""Upper bound on the elements whose states are packed at once."""
_BASE_BYTES, _ATTRIBUTE_BYTES = 300, 16
"""Approximate memory of an element without the values of its attributes, and of each attribute."""
_SAMPLE = 8
_NESTED_MAX = 4
"""Levels of lists and dicts within a state whose memory is looked at."""
_SEEN = attrgetter("_elf_seen")
_NAN = float("nan")


class Prototype:
    """A class of elements and its clones by key: the values of its fields as they are on columns.

    `changed`: the elements that have changed since their states were taken, and `gone` the nodes of keys that were
    removed; None and nothing before they are first asked for, since then all have changed.
    """

    def __init__(self, kind: type[PE], element: Element) -> None:
        if kind.__hash__ is not object.__hash__:
            raise ElementError(f"{kind.__name__}: defines __eq__ or __hash__, by which elements are not told apart")
        self.kind, self.element = kind, element
        self.clones: dict[Any, PE] = {}
        self.changed: set[PE] | None = None
        self.gone: dict[Any, int] = {}
        self._numbered: list[PE | None] = []
        self._numbering = 0
        self.ttl_ms = None if element.ttl_s is None else round(element.ttl_s * 1000)
        self.states = kind._elf_states
        prototype = kind()
        self.evicted = 0
        self._bytes_each = 0.0
        self.is_keyless = element.inputs[0].key is None
        self._is_split = bool(element.grouping)
        self.new: Callable[[Any, int, int, int], PE]
        self.renew: Callable[[PE], None]
        self.new, self.renew = _cloning(kind, prototype, self.states)

    def find(
        self,
        rows: range,
        numbers: memoryview[int],
        keys_of: Callable[[], Sequence[Any]],
        nodes: Sequence[int],
        times: Sequence[int],
        due: Callable[[int], int],
    ) -> list[PE]:
        """The elements of some rows of a call, made where they are the first of their keys. O(rows).

        `numbers`: the agent's numbers of the keys, by which elements are found that have had events before, since a
        place in a list costs a fraction of a key in a dict; empty where there are none.
        """
        if numbers:
            found: list[Any] = [*map(self._numbered.__getitem__, numbers[rows.start : rows.stop].tolist())]
        else:
            found = [*map(self.clones.get, keys_of()[rows.start : rows.stop])]
        if None in found:
            clones, keys = self.clones, keys_of()
            for place, row in enumerate(rows):
                if found[place] is None:
                    key = keys[row]
                    clone = clones.get(key)
                    if clone is None:
                        clone = clones[key] = self.new(key, nodes[row], times[row], due(times[row]))
                        self.gone.pop(key, None)
                    found[place] = clone
                    if numbers and clone._elf_number < 0:
                        clone._elf_number = numbers[row]
                        self._numbered[numbers[row]] = clone
        return found

    def number(self, numbering: int, count: int) -> None:
        """Makes room for so many numbers of keys; another `numbering` than before begins anew."""
        if numbering != self._numbering:
            self._numbering, self._numbered = numbering, []
            for clone in self.clones.values():
                clone._elf_number = -1
        self._numbered += [None] * (count - len(self._numbered))

    def _unnumber(self, clones: Iterable[PE]) -> None:
        """Forgets the numbers of elements that are removed."""
        for clone in clones:
            if clone._elf_number >= 0:
                self._numbered[clone._elf_number] = None

    def remove(self, clones: Iterable[PE]) -> None:
        """Removes elements, which the next states tell of."""
        for clone in clones:
            del self.clones[clone._elf_key]
            self._unnumber([clone])
            self.evicted += 1
            if self.changed is not None:
                self.changed.discard(clone)
                self.gone[clone._elf_key] = clone._elf_node

    def retire(self, clones: Iterable[PE]) -> None:
        """Removes elements that have told their states, and are of use no more."""
        evicted = self.evicted
        self.remove(clones)
        self.evicted = evicted

    def drop(self, nodes: Collection[int]) -> None:
        """Forgets the elements of logical nodes."""
        kept = {key: clone for key, clone in self.clones.items() if clone._elf_node not in nodes}
        self._unnumber(clone for key, clone in self.clones.items() if key not in kept)
        if self.changed is not None:
            self.changed = {clone for clone in self.changed if clone._elf_node not in nodes}
            self.gone = {key: node for key, node in self.gone.items() if node not in nodes}
        self.clones.clear()
        self.clones.update(kept)

    def expired(self, at_ms: int) -> list[PE]:
        """The elements whose time to live is over at a time."""
        if self.ttl_ms is None:
            return []
        latest = at_ms - self.ttl_ms
        return [clone for clone in self.clones.values() if clone._elf_seen <= latest]

    def evict(self, bytes_max: int, watermark_ms: int, kept: Collection[PE | None] = ()) -> None:
        """Removes elements until about so many bytes are in use: those past their time to live, then those of the least
        priority, then those without events for longest; never those `kept`.
        """
        self.remove(one for one in self.expired(watermark_ms) if one not in kept)
        excess = self.memory_bytes - bytes_max
        if excess > 0 and self.clones:
            each = self.memory_bytes / len(self.clones)
            least = sorted(self.clones.values(), key=_SEEN)
            if self.kind.priority is not PE.priority:
                least.sort(key=self.kind.priority)  # keeps the order of equals
            self.remove([one for one in least if one not in kept][: int(excess / each) + 1])

    # Memory.

    @property
    def memory_bytes(self) -> int:
        """About the memory that the elements use, from samples."""
        return int(len(self.clones) * self._bytes_each)

    def sample(self, clones: Sequence[PE]) -> None:
        """Measures some elements."""
        some = clones[:: max(1, len(clones) // _SAMPLE)][:_SAMPLE]
        sizes = [
            _BASE_BYTES + sys.getsizeof(clone._elf_key) + sum(_size(getattr(clone, one.name)) for one in self.states)
            for clone in some
        ]
        if sizes:
            mean = sum(sizes) / len(sizes)
            self._bytes_each = mean if not self._bytes_each else 0.9 * self._bytes_each + 0.1 * mean

    # States.

    def take(self, nodes: Collection[int] | None) -> Iterator[States]:
        """The states of logical nodes, or all that has changed. Raises StateError."""
        if nodes is not None:
            wanted = frozenset(nodes)
            clones: Sequence[PE] = [clone for clone in self.clones.values() if clone._elf_node in wanted]
        else:
            clones = [*(self.clones.values() if self.changed is None else self.changed)]
            if self.gone:
                yield self._removed()
            self.changed, self.gone = set(), {}
        for start in range(0, len(clones), STATES_PACKED_MAX):
            yield from self._bounded(clones[start : start + STATES_PACKED_MAX])

    def put(self, states: States) -> None:
        """Takes states that others have packed."""
        count = len(states.gone)
        nodes = memoryview(states.nodes).cast("H").tolist()
        keys = self.identities(self.keys([raw_texts(column) for column in states.keys], count), nodes)
        seen, counts, due = (memoryview(one).cast("q").tolist() for one in (states.seen, states.counts, states.due))
        values = [self._values(one, states.columns[one.name]) for one in self.states]
        clones, names = self.clones, [one.name for one in self.states]
        for place, (key, is_gone) in enumerate(zip(keys, states.gone, strict=True)):
            if is_gone:
                if (clone := clones.pop(key, None)) is not None:
                    self._unnumber([clone])
                continue
            clone = clones.get(key)
            if clone is None:
                clone = clones[key] = self.new(key, nodes[place], 0, 0)
            clone._elf_seen, clone._elf_count, clone._elf_due = seen[place], counts[place], due[place]
            for name, column in zip(names, values, strict=True):
                setattr(clone, name, column[place])
        if count:
            self.sample([clones[key] for key in keys[:_SAMPLE] if key in clones])

    def keys(self, columns: list[list[Any]], count: int) -> Sequence[Any]:
        """The keys of rows, from the columns of their fields."""
        if not columns:
            return [self.element.inputs[0].constant] * count
        clean = [
            [_NAN if value != value else value for value in one] if float in {*map(type, one)} else one
            for one in columns
        ]
        return clean[0] if len(clean) == 1 else [*zip(*clean, strict=True)]

    def identities(self, keys: Sequence[Any], nodes: Sequence[int]) -> Sequence[Any]:
        """The keys, with the logical nodes where a key has parts in several: they tell elements apart."""
        return [*zip(keys, nodes, strict=True)] if self._is_split else keys

    def key_of(self, clone: PE) -> Any:
        """The key of an element, as it is on columns."""
        return clone._elf_key[0] if self._is_split else clone._elf_key

    def _values(self, state: StateAttribute, column: PackedColumn) -> list[Any]:
        if state.kind != "json":
            return unpacked(column)
        if column.kind == "s":
            return unpacked(PackedColumn("j", texts=column.texts))
        return [None if text is None else msgspec.json.decode(text) for text in column.values]

    def _removed(self) -> States:
        count = len(self.gone)
        zeros = bytes(8 * count)
        columns = {one.name: PackedColumn("l", values=[None] * count) for one in self.states}
        nodes = array("H", self.gone.values()).tobytes()
        return States(nodes, self._key_columns([*self.gone]), b"\1" * count, zeros, zeros, zeros, columns)

    def _bounded(self, clones: Sequence[PE]) -> Iterator[States]:
        """Packs states, in halves as long as they are too large."""
        columns = {one.name: self._packed(one, clones) for one in self.states}
        keys = self._key_columns([clone._elf_key for clone in clones])
        try:
            size = sum(map(column_bytes, (*columns.values(), *keys)))
        except ValueError as error:  # half of a pair of UTF-16, say
            if len(clones) == 1:
                raise StateError(f"its state cannot be kept: {error}", clones[0]) from None
            size = STATE_BYTES_MAX + 1
        if size > STATE_BYTES_MAX and len(clones) > 1:
            yield from self._bounded(clones[: len(clones) // 2])
            yield from self._bounded(clones[len(clones) // 2 :])
            return
        if size > STATE_BYTES_MAX:
            exact = sum(len(one.numbers) + len(one.texts.encode()) for one in columns.values())
            if exact > STATE_BYTES_MAX:
                raise StateError(f"its state has {exact:,} bytes: at most {STATE_BYTES_MAX:,} are kept", clones[0])
        none = bytes(8 * len(clones))
        has_counts, has_times = self.element.every_n is not None, self.element.every_s is not None
        yield States(
            array("H", [clone._elf_node for clone in clones]).tobytes(),
            keys,
            bytes(len(clones)),
            array("q", [clone._elf_seen for clone in clones]).tobytes(),
            array("q", [clone._elf_count for clone in clones]).tobytes() if has_counts else none,
            array("q", [clone._elf_due for clone in clones]).tobytes() if has_times else none,
            columns,
        )

    def _key_columns(self, keys: list[Any]) -> list[PackedColumn]:
        names = self.element.inputs[0].key or []
        keys = [key for key, _ in keys] if self._is_split else keys
        columns = [keys] if len(names) == 1 else [*map(list, zip(*keys, strict=True))] if names else []
        return [packed(one, "any") for one in columns]

    def _packed(self, state: StateAttribute, clones: Sequence[PE]) -> PackedColumn:
        """The values of one attribute. Raises StateError for one that is not as its annotation says."""
        name = state.name
        values = [*map(attrgetter(name), clones)]
        if state.kind == "json":
            return _packed_json(state, values, clones)
        column = packed(values, state.kind)
        if column.kind == "l":
            allowed = _ALLOWED[state.kind]
            for value, clone in zip(values, clones, strict=True):
                if type(value) not in allowed or (type(value) is int and not -(2**63) <= value < 2**63):
                    raise StateError(f"its {name} is {shown(value)[:80]!r}, and annotated as {state.kind}", clone)
        return column


_ALLOWED: dict[str, tuple[type, ...]] = {
    "integer": (int, bool, type(None)),
    "number": (int, float, bool, type(None)),
    "string": (str, type(None)),
    "boolean": (bool, type(None)),
}


def _packed_json(state: StateAttribute, values: list[Any], clones: Sequence[PE]) -> PackedColumn:
    try:
        lines = msgspec.json.Encoder().encode_lines(values)
        if msgspec.json.Decoder().decode_lines(lines) == values and {*map(type, values)} <= _JSON_TYPES:
            return PackedColumn("s", texts=lines[:-1].decode().replace("\n", SEPARATOR))
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    wrong = next((clone for value, clone in zip(values, clones, strict=True) if not is_json(value)), clones[0])
    value = shown(getattr(wrong, state.name))[:80]
    raise StateError(f"its {state.name} is {value}, which JSON does not hold as it is", wrong)


_JSON_TYPES = {dict, list, int, str, bool, float, type(None)}


def _size(value: Any, levels: int = _NESTED_MAX) -> int:
    """About the memory of a value of a state: a few of many parts are measured, and those within them for so many
    levels, as it may be within itself."""
    size = _ATTRIBUTE_BYTES + sys.getsizeof(value)
    if levels and isinstance(value, dict | list) and value:
        parts = [*value.items()][:_SAMPLE] if isinstance(value, dict) else [(None, one) for one in value[:_SAMPLE]]
        size += len(value) * sum(_size(key) + _size(one, levels - 1) for key, one in parts) // len(parts)
    return size


def _cloning(
    kind: type[PE], prototype: PE, states: Sequence[StateAttribute]
) -> tuple[Callable[[Any, int, int, int], PE], Callable[[PE], None]]:
    """Functions that make a clone, and that give one the state of a new one. Raises ElementError."""
    plain, parts = [], []
    for state in states:
        value = getattr(prototype, state.name)
        if not is_json(value):
            raise ElementError(
                f"{kind.__name__}.{state.name}: starts with what JSON cannot hold: {shown(value)[:80]!r}"
            )
        if isinstance(value, list | dict):
            parts.append((state.name, (type(value) if not value else partial(copy.deepcopy, value))))
        else:
            plain.append((state.name, value))
    own = {state.name for state in states}
    compact = _compact(kind, own)
    shared = [(name, value) for name, value in vars(prototype).items() if name not in own]

    def renew(clone: PE) -> None:
        clone._elf_count = 0
        for name, value in plain:
            setattr(clone, name, value)
        for name, made in parts:
            setattr(clone, name, made())

    def new(key: Any, node: int, seen: int, due: int) -> PE:
        clone = object.__new__(compact)
        clone._elf_number = -1
        clone._elf_key, clone._elf_node, clone._elf_seen, clone._elf_due = key, node, seen, due
        renew(clone)
        for name, value in shared:
            setattr(clone, name, value)
        return clone

    return new, renew


def _compact(kind: type[PE], states: Collection[str]) -> type[PE]:
    """A class of elements whose attributes are in one piece of memory: with very many, most time goes into fetching it.

    A class that looks at its subclasses gets none.
    """
    if getattr(kind.__init_subclass__, "__func__", None) is not getattr(PE.__init_subclass__, "__func__", None):
        return kind
    names = ("_elf_key", "_elf_node", "_elf_number", "_elf_seen", "_elf_due", "_elf_count", *sorted(states))
    about = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__", "_elf_states")}
    made: type[PE] = type(kind.__name__, (kind,), {**about, "__slots__": names})
    return made
