"""Lines of the report where less is better, and of rivals that could not be run."""

from benchmarks.report import Comparison

from .runs import Outcome


def smaller(
    case: str, value: float, unit: str, rival: str, rival_value: float | None, target: float | None = None
) -> Comparison:
    """A comparison where less is better; `ratio` is the rival's figure over ELF's."""
    ratio = None if rival_value is None else rival_value / value
    met = None if target is None else ratio is not None and ratio >= target
    return Comparison("cbt", case, value, unit, rival, rival_value, ratio, target, met)


def named(rival: str, found: dict[str, Outcome]) -> str:
    """The rival, with the reason if it was not run."""
    return f"{rival} (not run: {found[rival].reason})" if found[rival].reason else rival
