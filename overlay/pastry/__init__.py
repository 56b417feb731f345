"""Pastry: a node's tables, joining, failure detection, repair and routing.

Takes peers' messages and the time, updates the tables and emits messages and events through the outbox. Imports `core`
and `wire`; inside, the layers are presence > forwarding > membership > detection > tables.
"""
