"""Values and types of ELF QL, its errors and its limits."""
