"""Consolidates panes into windows of several sizes at once, at the root of a tree."""

from collections.abc import Iterator, Sequence

import polars as pl

from cbt.windows.merging import Difference, Mergeable
from cbt.windows.panes import PanePlan, WindowSize
from cbt.windows.sequence import CompleteWindow
from cbt.windows.shared_windows import SharedWindows, WorkDone
from cbt.windows.window_plan import WindowPlan


class Consolidator:
    """Takes sealed panes in order and yields the windows that they complete.

    `layout` combines the frames: a `Layout`, or another object with `empty` and `combine`. A pane's frame has one row
    for each (pane, key), ordered as a tree's flush; a window's has the same columns, with the window's start as `pane`.
    Windows share work, of all sizes: see `cbt.windows.window_plan`. `difference`: how frames are taken off, if that is
    not known by the layout. `pane_ms`: as of `PanePlan`. Raises ValueError for window sizes as `PanePlan` does.

    >>> from cbt import Aggregate, Key, Layout
    >>> layout = Layout([Key("path", "string")], [Aggregate("hits", "count", None, "any")])
    >>> windows = Consolidator(layout, [WindowSize(20, 10)])
    >>> for pane, paths in [(0, ["/a", "/a"]), (10, ["/b"]), (20, [])]:
    ...     events = pl.DataFrame({"pane": pane, "path": paths}, schema={"pane": pl.Int64, "path": pl.String})
    ...     for window in windows.add(pane, layout.lift(events)):
    ...         print(window.start_ms, window.end_ms, sorted(layout.lower(window.frame).select("path", "hits").rows()))
    -10 10 [('/a', 2)]
    0 20 [('/a', 2), ('/b', 1)]
    10 30 [('/b', 1)]
    """

    def __init__(
        self,
        layout: Mergeable,
        sizes: Sequence[WindowSize],
        difference: Difference | None = None,
        pane_ms: int | None = None,
    ) -> None:
        self.plan = PanePlan(sizes, pane_ms)
        self._windows = SharedWindows(layout, self.plan, difference or Difference.of(layout))
        self._complete: int | None = None  # every pane before this time is added
        self._ended = self._yielding = False

    def add(self, pane: int, frame: pl.DataFrame) -> Iterator[CompleteWindow]:
        """Yields the windows that this pane completes, by their ends, shorter ones first.

        Skipped panes count as empty. A window of skipped panes alone is left out; a window with a pane that was added
        empty is not. The first windows may begin before the first pane. Raises ValueError for a pane that is not
        aligned or not after the last, RuntimeError after `end` or as long as an earlier iterator has not come to its
        end.
        """
        self._check_idle()
        self._check_aligned(pane)
        if self._complete is not None and pane < self._complete:
            raise ValueError(f"pane {pane} is before {self._complete}, up to where panes are complete")
        return self._started(self._add(pane, frame))

    def advance(self, complete_ms: int) -> Iterator[CompleteWindow]:
        """Yields the windows that are complete once all panes before a time are, whether or not they were added.

        Yields nothing if that is known already. Raises ValueError for a time that is not aligned, RuntimeError as `add`
        does.
        """
        self._check_idle()
        self._check_aligned(complete_ms)
        if self._complete is not None and complete_ms <= self._complete:
            return iter(())
        return self._started(self._advance(complete_ms))

    def end(self) -> Iterator[CompleteWindow]:
        """Yields the windows that have begun, at the end of bounded input; nothing can be added after it."""
        self._check_idle()
        self._ended = True
        if self._complete is None:
            return iter(())
        return self._started(self._advance(self._complete + self.plan.size_max_ms))

    def partial(self) -> Iterator[CompleteWindow]:
        """Yields the windows that have begun, as far as they have come, by their ends. More can be added afterwards.

        Raises RuntimeError as `add` does. O(frames).
        """
        self._check_idle()
        return self._windows.partial()

    @property
    def window_plan(self) -> WindowPlan:
        """The plan by which windows are made now."""
        return self._windows.plan

    @property
    def done(self) -> WorkDone:
        """The windows that were made, and what was merged for them."""
        return self._windows.done

    @property
    def frames(self) -> int:
        """The number of frames held. O(sizes)."""
        return self._windows.frames

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns held, those that frames share once for each of them. O(frames)."""
        return self._windows.memory_bytes

    def _add(self, pane: int, frame: pl.DataFrame) -> Iterator[CompleteWindow]:
        yield from self._advance(pane)
        self._windows.add(frame)
        yield from self._advance(pane + self.plan.pane_ms)

    def _advance(self, complete_ms: int) -> Iterator[CompleteWindow]:
        self._complete = complete_ms
        return self._windows.advance(complete_ms)

    def _started(self, windows: Iterator[CompleteWindow]) -> Iterator[CompleteWindow]:
        self._yielding = True
        return self._to_the_end(windows)

    def _to_the_end(self, windows: Iterator[CompleteWindow]) -> Iterator[CompleteWindow]:
        yield from windows
        self._yielding = False

    def _check_idle(self) -> None:
        if self._yielding:
            raise RuntimeError("there are windows left to take of the pane before")
        if self._ended:
            raise RuntimeError("the windows have ended")

    def _check_aligned(self, pane: int) -> None:
        if pane % self.plan.pane_ms:
            raise ValueError(f"{pane} is no pane: they start at multiples of {self.plan.pane_ms} ms")
