"""Click options that several commands share, and readers of their values. Command-line texts come in, clients, views
and options of runs go out. May import `elf.client` and `elf.output`.
"""
