"""Recovery times of the fleet, one row per fault."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Recovery:
    """From the fault, or its end, until all leaf sets were right, a window complete, and an answer complete."""

    what: str
    overlay_s: float
    window_s: float
    answer_s: float

    def __str__(self) -> str:
        return f"| {self.what} | {self.overlay_s:.1f} s | {self.window_s:.1f} s | {self.answer_s:.1f} s |"


@dataclass
class Recoveries:
    rows: list[Recovery] = field(default_factory=list)

    def table(self) -> str:
        """In Markdown; empty if nothing was measured."""
        if not self.rows:
            return ""
        head = "| | leaf sets right | window complete | answer complete |\n|---|---|---|---|\n"
        return head + "\n".join(map(str, self.rows))
