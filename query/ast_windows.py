"""The windows of a query as they are written."""

from __future__ import annotations

from dataclasses import dataclass, field

from query.errors import Span


@dataclass(frozen=True, slots=True)
class Duration:
    """`amount unit`; the unit is in capitals and plural."""

    amount: int
    unit: str
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class WindowSize:
    """`size [EVERY slide]`; without a slide windows follow each other."""

    size: Duration
    slide: Duration | None = None
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """`WINDOWING sizes [GRACE grace]`, or `WINDOWING SESSION gap [GRACE grace]`: then there are no sizes."""

    sizes: tuple[WindowSize, ...]
    gap: Duration | None = None
    grace: Duration | None = None
    span: Span = field(default=Span(), compare=False)
