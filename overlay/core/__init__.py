"""State and services shared by all layers of a node: events, outbox, counters, randomness, recent message ids.

The parts of a node put messages and events into the outbox; the shell drains it. Imports only `overlay.wire`.
"""
