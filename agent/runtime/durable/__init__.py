"""Keeps what workers seal on the agent's disk before it leaves, and brings it back after a restart. In: sealed runs of
pipelines, and the disk's word. Out: records for the shell, runs that may leave. Imports `messages` and `model` only.
"""
