"""Scribe: groups as trees over Pastry's routes, and multicast down them.

Takes its own messages, and changes of Pastry's tables and of peers' liveness; emits tree messages and events. Imports
Pastry's tables, detection and membership; Pastry does not import it.
"""
