"""Reconciliation: live results held against the same windows computed from the archive."""
