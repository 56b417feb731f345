"""Hosts the keyed elements of one job beside its peers: sends events where the element of their key is, keeps commits
with standbys, and moves logical nodes. A pure core: messages, rows and the time come in, messages and rows go out. It
may import `elements`, `graph`, `logical_nodes`, `messages` and `model`.
"""
