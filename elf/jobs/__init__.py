"""Jobs that come with ELF: each file is a whole program, to run (`elf submit NAME`), to read and to copy."""
