"""The fleet as one agent knows it: its jobs, their names, and the creators it trusts.

Announcements come in by the router; listeners hear of them and of jobs that are gone. Imports `messages` and `model`.
"""
