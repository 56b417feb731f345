"""The jobs that come with ELF, by name."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "jobs"
JOBS = (
    "ctr", "kmeans", "lending", "micro_promotion", "opo", "product_bundling", "sale_prediction", "spam_campaign",
    "top_words",
)  # fmt: skip


def shipped(name: str) -> Path | None:
    """The file of a job that comes with ELF, by the name of its file or of its app; None if there is none.

    >>> shipped("micro-promotion").name
    'micro_promotion.py'
    >>> shipped("elsewhere/kmeans")
    """
    spelled = name.replace("-", "_")
    return FOLDER / f"{spelled}.py" if spelled in JOBS else None
