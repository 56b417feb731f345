"""Results and lists for people (tables, charts) and programs (JSON lines, CSV). Results and jobs of `elf.client` or of
this process come in, text on standard output and standard error goes out. May import `elf.client` and `elf.terminal`.
"""
