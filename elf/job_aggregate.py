"""The base class of a job's own aggregates: the user's compute and consolidate (Enorm §4.1).

    import elf

    class Top(elf.Aggregate):
        def lift(self, user, amount):
            return {user: amount}

        def combine(self, one, other):
            return {user: one.get(user, 0) + other.get(user, 0) for user in {**one, **other}}

        def lower(self, state):
            return sorted(state, key=lambda user: (-state[user], user))[:3]

    class Spenders(elf.Job):
        aggregates = {"TOP_SPENDERS": Top}
        query = "SELECT store, TOP_SPENDERS(user, amount) AS top FROM web GROUP BY store WINDOWING 10 MINUTES"

An aggregate without `combine` is *rigid*: `lower` gets what `lift` has made of all rows of a group, so these have to be
in one place, as those of a stage are (`FROM app('its name')`).

One object of the class lives in each process of the job. A state is made of plain values alone: None, booleans,
numbers, texts, bytes, lists, and dicts of them; it comes back as it is encoded, so a tuple comes back as a list. States
of one group are combined in any order, on any agent: so `combine` has to be commutative and associative, which is tried
when the job is submitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

RESULT_TYPES = ("number", "integer", "string", "boolean")


class AggregateError(Exception):
    """An aggregate has made something that cannot be kept; one line that names the aggregate."""


class JobAggregate:
    """Base of a job's own aggregates.

    `gives` is the type of its results: "string", "number", "integer" or "boolean"; where it is "string", a result that
    is no text is shown as its JSON. `examples` are events on which the aggregate is tried at submission, as tuples of
    `lift`'s arguments; without any it is tried on simple numbers, texts and booleans.
    """

    gives: ClassVar[str] = "string"
    examples: ClassVar[Sequence[tuple[Any, ...]]] = ()

    def lift(self, *values: Any) -> Any:
        """The state of one event, of the values that the query names; NULL is None. Events of which all are NULL are
        passed over. A state that is not combined may be any object."""
        raise NotImplementedError

    def combine(self, one: Any, other: Any) -> Any:
        """The state of all events of two states, which it may change. Without it the aggregate is rigid."""
        raise NotImplementedError

    def lower(self, state: Any) -> Any:
        """The result of a state; by default the state. Of a rigid aggregate: of the list of the states of all events of
        the group, in the order of their times, and those of one moment in that of their values."""
        return state


def is_rigid(kind: type[JobAggregate]) -> bool:
    """Whether an aggregate is computed of all events of a group together, as it has no `combine`.

    >>> class Rises(JobAggregate):
    ...     lower = lambda self, numbers: sum(one < other for one, other in zip(numbers, numbers[1:]))
    >>> is_rigid(Rises)
    True
    """
    return kind.combine is JobAggregate.combine


Aggregate = JobAggregate
"""The name by which jobs know it: `elf.Aggregate`."""
