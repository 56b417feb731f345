"""The programs of these tests on a kernel whose Landlock is the first one, which governs the least."""

from __future__ import annotations

import runpy
from pathlib import Path

from agent.programs import landlock

if __name__ == "__main__":
    landlock._NEWEST = 1
    runpy.run_path(str(Path(__file__).with_name("tried.py")), run_name="__main__")
