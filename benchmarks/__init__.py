"""How fast ELF is, next to what people would use instead. `python -m benchmarks` runs everything."""
