"""The program of these tests. Run as a script; an agent hands a module of its own to Python."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from agent.programs.child import serve

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))
    for name in ("allowed", "refused", "fatal"):
        importlib.import_module(f"attempts_{name}")
    serve(importlib.import_module("attempts").make_runner)
