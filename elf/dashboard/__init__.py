"""The page that shows a fleet in a browser, served by a process of its own, which asks one agent as any client does.

An address and a client come in, a server runs until it is ended. May import `elf.client`, `elf.output`, `elf.shell` and
`elf.explain`. Importing this package loads no web toolkit; `server` does.
"""
