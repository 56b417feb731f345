"""Jobs that come with ELF. Each file is a whole program, to run (`elf submit NAME`), to read and to copy; it imports
nothing but `elf`.
"""
