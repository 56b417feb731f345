"""Has jobs whose windows are to be out in time do what they can until then (WITHIN ... ELSE PARTIAL): which of the
events that wait are inserted, and when panes are handed in as they are.
"""
