"""Finds segments that may share rows: read from the same part of a file, and with overlapping keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.archive.format.segments import Segment
from elf.batch.table.stores import StoredSegment


def sharing_rows(segments: Sequence[StoredSegment]) -> set[str]:
    """Names of the segments that may share rows with another one. O(n log n + pairs whose keys overlap)."""
    return {name for pair in _overlapping([one.segment for one in segments]) for name in pair}


def _overlapping(segments: Sequence[Segment]) -> Iterator[tuple[str, str]]:
    """Yields pairs of segments that may share rows, in the order of their keys."""
    open_ones: list[Segment] = []
    for segment in sorted(segments, key=lambda one: one.first_key):
        open_ones = [one for one in open_ones if one.last_key >= segment.first_key]
        for other in open_ones:
            if segment.agent == other.agent and _share_origins(segment, other):
                yield segment.name, other.name
        open_ones.append(segment)


def _share_origins(one: Segment, other: Segment) -> bool:
    """Whether both segments come from a common part of a file. Both lists are sorted and disjoint."""
    left, right = iter(sorted(one.origins)), iter(sorted(other.origins))
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        if a[0] == b[0] and a[1] < b[2] and b[1] < a[2]:
            return True
        if (a[0], a[2]) < (b[0], b[2]):
            a = next(left, None)
        else:
            b = next(right, None)
    return False
