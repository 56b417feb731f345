"""Predicts the latency of queries from what jobs of the fleet have measured, and decides on their limits at submission.

A plan and a master's measurements go in, a setting or a refusal comes out. Imports `query.latency`, and the core's
requests.
"""
