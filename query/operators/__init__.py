"""Operators: the `map`, `compute` and `consolidate` of a job, with the attributes that each may be partitioned by.

Plans come in, of a query with its sub-queries or of a job with its stages; a graph of operators goes out (Enorm,
sections 4.1 to 4.3). Imports `query.plan` and what lies below.
"""
