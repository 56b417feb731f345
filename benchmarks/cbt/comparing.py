"""Names of rivals that could not be run."""

from .runs import Outcome


def named(rival: str, found: dict[str, Outcome]) -> str:
    """The rival, with the reason if it was not run."""
    return f"{rival} (not run: {found[rival].reason})" if found[rival].reason else rival
