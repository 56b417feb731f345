"""The steps in which event time matters: what elements and windows act on are multiples of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from agent.programs.element_graph import Element
from agent.runtime.keyed.elements.outputs import plan_of
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.options import KeyedOptions

STEP_MS = 100
"""The least step, and that of elements that act at any time."""
TTL_STEP_MS = 1000


def steps_of(layout: GraphLayout, options: KeyedOptions) -> list[int]:
    """For each type the step (ms) of what acts on its time, or on that of types that come of it."""
    found = [options.pane_ms or STEP_MS] * len(layout.types)
    for _ in layout.types:  # a path has no more types
        for element in layout.elements:
            step = own_step_ms(element)
            for name in layout.graph.emits(element):
                step = gcd(step, found[layout.by_name[name].place])
            for one in element.inputs:
                place = layout.by_name[one.type].place
                found[place] = gcd(found[place], step)
    return [max(step, STEP_MS) for step in found]


def own_step_ms(element: Element) -> int:
    """The step in which an element acts on time, 0 if it does not."""
    if element.every_s is not None:
        return max(1, round(element.every_s * 1000))
    if element.kind == "aggregate" and (windowing := plan_of(element).windowing) is not None:
        return windowing.pane_ms or STEP_MS
    if element.kind == "join" or element.ordered:
        return STEP_MS
    return TTL_STEP_MS if element.ttl_s is not None else 0


def is_past_step(before: Sequence[int], after: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether the time of a type has passed a multiple of its step."""
    return any(old // step != new // step for old, new, step in zip(before, after, steps, strict=True))
