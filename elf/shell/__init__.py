"""`elf shell`: statements typed at a terminal, answered by a fleet or over files. Keys come in, results on the terminal
go out. May import `elf.statements`, `elf.output` and `elf.terminal`.
"""
