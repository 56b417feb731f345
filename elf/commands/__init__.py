"""The verbs of `elf`, a module each. Arguments come in, output and an exit code go out; may import all of `elf`."""
