"""Declarations of a job that processes its events key by key (S4): event types, sources, processing elements. Python
classes come in, the graph of the job's elements goes out. Programs load it too; it may import `agent.programs`.
"""
