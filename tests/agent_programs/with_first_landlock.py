"""The programs of these tests on a kernel whose Landlock is the first one, which governs the least."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.programs import landlock
from agent.programs.child import serve

sys.path.append(str(Path(__file__).parent))

if __name__ == "__main__":
    from tried import make_runner

    landlock._NEWEST = 1
    serve(make_runner)
