"""Statements of ELF QL, and the backends that answer them: a fleet, or files."""
