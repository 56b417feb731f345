"""Tables and lists as HTML in which every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from elf.terminal.terminal import printable


def text(value: object) -> str:
    r"""A text for HTML: nothing in it is markup, and control characters are spelled out.

    >>> text("<b>\x1b[31m")
    '&lt;b&gt;\\x1b[31m'
    """
    return escape(printable(str(value)))


def table(caption: str, titles: Sequence[str], rows: Iterable[Sequence[object]], *, keys: Sequence[str] = ()) -> str:
    """A table whose first column names the rows. `keys`: what a click on each row selects."""
    head = "".join(f'<th scope="col">{text(title)}</th>' for title in titles)
    lines = []
    for number, row in enumerate(rows):
        first, *others = ["" if cell is None else text(cell) for cell in row] or [""]
        key = f' data-key="{escape(keys[number])}"' if keys else ""
        lines.append(f'<tr{key}><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>')
    body = "".join(lines)
    return f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def definitions(pairs: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Titles, each with lines below it; those without lines are left out."""
    parts = [
        f"<dt>{text(title)}</dt>{''.join(f'<dd>{text(line)}</dd>' for line in lines)}"
        for title, lines in pairs
        if lines
    ]
    return f"<dl>{''.join(parts)}</dl>"


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(0, "row"), counted(1, "row"), counted(2000, "row")
    ('no rows', '1 row', '2,000 rows')
    """
    return f"{number:,} {what}" if number == 1 else f"{f'{number:,}' if number else 'no'} {what}s"


def duration(seconds: float | None) -> str | None:
    """A time in about two figures and a unit.

    >>> [duration(one) for one in (0.25, 12, 600, 7200, 200_000, None)]
    ['0.2 s', '12 s', '10 min', '120 min', '56 h', None]
    """
    if seconds is None:
        return None
    for below, size, unit, digits in ((10, 1, "s", 1), (120, 1, "s", 0), (4 * 3600, 60, "min", 0)):
        if seconds < below:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / 3600:.0f} h"
