"""Statements of ELF QL, and the backends that answer them: a fleet, or files. Texts come in, results are shown and exit
codes go out. May import `elf.explain`, `elf.options`, `elf.output`, `elf.client` and `elf.local`.
"""
