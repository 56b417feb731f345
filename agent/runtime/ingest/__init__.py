"""Ingest: the events of feeds come in, are counted in panes once for all jobs that share an operator, and go out to
local jobs as sealed runs. It may import `function`, `messages` and `model`.
"""
