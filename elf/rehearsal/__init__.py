"""Rehearses keyed stages over streams of keys, without agents: FIFO workers in virtual time, and the agents' own
groupings. `elf grouping` and the benchmark share it. Keys and settings come in, figures go out; may import `elf.local`.
"""
