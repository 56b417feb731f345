"""Panes, the windows that are made of them, and sessions: panes' frames come in, complete windows go out. Imports
`cbt.layout` and what lies below, not the tree."""

from cbt.windows.consolidator import Consolidator
from cbt.windows.open_sessions import ClosedSessions, OpenSessions
from cbt.windows.panes import PanePlan, WindowSize, pane_of
from cbt.windows.sequence import CompleteWindow
from cbt.windows.sessions import SESSION_TIMES, SessionLayout
from cbt.windows.subtraction import subtract_frames

__all__ = [
    "SESSION_TIMES",
    "ClosedSessions",
    "CompleteWindow",
    "Consolidator",
    "OpenSessions",
    "PanePlan",
    "SessionLayout",
    "WindowSize",
    "pane_of",
    "subtract_frames",
]
