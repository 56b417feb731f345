"""`python -m elf` is the `elf` command."""

from elf.cli import main

main()
