"""The verbs of `elf`, a module each. Command-line arguments come in, an exit code and output go out; may import all of `elf`."""
