"""The fleet as one agent knows it: its jobs, their names, and the creators it trusts.

Announcements come in by the router and go to listeners, as do jobs that are gone. Imports `messages` and `model`.
"""
