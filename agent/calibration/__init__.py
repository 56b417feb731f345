"""Measures what ELF's work costs on this machine: once for the machine, and for a query over the ends of its logs.

Functions, lines and a timer come in, costs of phases go out. Everything that is timed is production code.
"""
