"""`elf shell`: statements typed at a terminal, answered by a fleet or over files."""
