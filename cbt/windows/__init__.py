"""Panes, the windows that are made of them, and sessions: panes' frames come in, complete windows go out. Imports
`cbt.layout` and what lies below, not the tree."""

from cbt.windows.consolidator import Consolidator
from cbt.windows.merging import Difference
from cbt.windows.open_sessions import ClosedSessions, OpenSessions
from cbt.windows.panes import PanePlan, WindowSize, pane_of
from cbt.windows.sequence import CompleteWindow
from cbt.windows.sessions import SESSION_TIMES, SessionLayout
from cbt.windows.shared_windows import WorkDone
from cbt.windows.subtraction import subtract_frames
from cbt.windows.window_plan import WindowPlan, plan_windows

__all__ = [
    "SESSION_TIMES",
    "ClosedSessions",
    "CompleteWindow",
    "Consolidator",
    "Difference",
    "OpenSessions",
    "PanePlan",
    "SessionLayout",
    "WindowPlan",
    "WindowSize",
    "WorkDone",
    "pane_of",
    "plan_windows",
    "subtract_frames",
]
