"""Reconciliation: published windows compared with the same windows computed from the archive. Live results and archive
tables come in, verdicts go out. May import `elf.batch.query`, `table` and `session`.
"""
