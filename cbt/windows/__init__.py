"""Panes, and the windows that are made of them."""

from cbt.windows.consolidator import Consolidator
from cbt.windows.panes import PanePlan, WindowSize, pane_of
from cbt.windows.sequence import Window
from cbt.windows.subtraction import subtract_frames

__all__ = ["Consolidator", "PanePlan", "Window", "WindowSize", "pane_of", "subtract_frames"]
