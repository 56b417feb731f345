"""Options of commands that take a query: the limit on its groups, and the treatment of further groups."""

from __future__ import annotations

import click

from agent.control.messages import GROUPS_DEFAULT, GROUPS_MAX

max_groups_option = click.option(
    "--max-groups", metavar="N", type=click.IntRange(1, GROUPS_MAX), default=GROUPS_DEFAULT,
    help=f"Rows for at most N groups of each window, {GROUPS_DEFAULT:,} by default. Which of more is a matter of "
    "chance, but those are exact; all others are one group, OTHER, beside the rows.",
)  # fmt: skip
beyond_groups_option = click.option(
    "--beyond-groups", type=click.Choice(["other", "error"]), default="other", show_default=True,
    help="What becomes of groups beyond --max-groups: one group, OTHER, or an error that ends the job.",
)  # fmt: skip
