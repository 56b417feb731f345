"""Fusion: which operators of a job are partitioned alike, so that no row goes from agent to agent between them.

Algorithm 1 of Enorm (section 4.4.1) with both of its scores, its baseline, and ELF's own labelling. Pure functions of a
graph and its rates. Imports `query.operators`.
"""
