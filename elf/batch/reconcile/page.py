"""Renders verdicts as one HTML page with everything in it: a browser fetches nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from elf.batch.reconcile.chart import picture
from elf.batch.reconcile.text import VERDICTS, summary, why, window_text
from elf.batch.reconcile.verdicts import Judged
from elf.terminal.terminal import printable

ROWS_MAX = 5000
"""Upper bound on rows of the table; windows with a difference come first where there are more."""
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --paper: #fff; --line: #ccd3db; --live: #1668c7; --offline: #d98200;
  --equal: #3a9a5b; --explained: #d9a400; --unchecked: #8a94a0; --unexplained: #cf2a2a }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --paper: #14181d; --line: #3a434d; --live: #6db1ff;
  --offline: #ffb84d; --equal: #63c887; --explained: #f0c94a; --unexplained: #ff6b6b } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .6rem }
svg { width: 100%; height: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left; vertical-align: top }
td.number { text-align: right } td { white-space: nowrap }
td:last-child { white-space: normal; overflow-wrap: anywhere }
.equal { color: var(--equal) } .explained { color: var(--explained) } .unchecked { color: var(--unchecked) }
.unexplained { color: var(--unexplained); font-weight: bold }
"""


def page(app: str, queries: Sequence[tuple[int, str]], judged: Sequence[Judged]) -> str:
    """The page. `queries`: the job's versions, by number; they and the results may contain any text."""
    title = f"{_safe(app)}: live and offline"
    versions = "".join(f"<h2>Version {number}</h2><pre>{_safe(text)}</pre>" for number, text in queries)
    shown = _shown(judged)
    note = f"<p>{len(shown):,} of {len(judged):,} windows are listed.</p>" if len(shown) < len(judged) else ""
    rows = "".join(_rows(shown))
    head = "".join(f"<th>{name}</th>" for name in ("Window", "Version", "Verdict", "Live", "Offline", "Why"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{_safe(summary(judged))}.</p>{picture(judged)}"
        f"{note}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{versions}</body></html>\n"
    )


def _shown(judged: Sequence[Judged]) -> Sequence[Judged]:
    if len(judged) <= ROWS_MAX:
        return judged
    worst = sorted(judged, key=lambda one: -VERDICTS.index(one.verdict))[:ROWS_MAX]
    return sorted(worst, key=lambda one: one.window)


def _rows(judged: Sequence[Judged]) -> Iterator[str]:
    for one in judged:
        live = "" if one.live is None else f"{one.live.events:,}"
        offline = "" if one.offline is None else f"{one.offline.events:,}"
        version = "" if one.live is None else str(one.live.version)
        yield (
            f'<tr><td>{_safe(window_text(one))}</td><td>{version}</td><td class="{one.verdict}">{one.verdict}</td>'
            f'<td class="number">{live}</td><td class="number">{offline}</td><td>{_safe(why(one))}</td></tr>'
        )


def _safe(text: str) -> str:
    """Escapes text from queries and logs."""
    return escape(printable(text))
