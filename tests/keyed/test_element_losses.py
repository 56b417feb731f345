"""A result says what the elements of its job have given up; one that has given up nothing is as it always was."""

from __future__ import annotations

import msgspec

from agent.runtime.function.result import WindowResult
from agent.runtime.model.element_losses import ElementLosses, Given
from elf.output.completeness import completeness


def result(**changes: object) -> WindowResult:
    one = WindowResult(
        app="top", window_start=None, window_end=None, rows=[], contributors=2, expected=2, missing=[], partial=[],
        leaped=0, events=10, late=0, malformed=0, coerced=0, dropped=0, other=None, limited={}, error=None, version=1,
        epoch=1,
    )  # fmt: skip
    return msgspec.structs.replace(one, **changes)


def test_losses_of_all_hosts_add_up_and_outlive_them() -> None:
    losses = ElementLosses()
    losses.note(1, Given(evicted=5, shed=100, lost=1 << 3))
    losses.note(2, Given(evicted=1, shed=0, lost=1 << 900, missed=4))
    losses.note(1, Given(evicted=7, shed=120, lost=1 << 3))
    assert losses.total() == Given(8, 120, 1 << 3 | 1 << 900, missed=4)
    losses.note(1, Given(evicted=0, shed=10))  # a new process of the same agent
    assert losses.total() == Given(8, 130, 1 << 3 | 1 << 900, missed=4)
    assert losses.total().lost_nodes == [3, 900]


def test_results_say_what_was_given_up_and_nothing_where_nothing_was() -> None:
    assert not {"evicted", "shed", "lost"} & msgspec.json.decode(result().to_bytes()).keys()
    given = result(evicted=1200, shed=3, lost=[5, 17], missed=2)
    line = msgspec.json.decode(given.to_bytes())
    assert (line["evicted"], line["shed"], line["lost"]) == (1200, 3, [5, 17])
    assert completeness(given) == (
        "2 of 2 agents · 10 events · 1,200 elements evicted · 3 events shed · 2 events missed by elements"
        " · the state of 2 logical nodes lost"
    )
    assert completeness(result()) == "2 of 2 agents · 10 events"
