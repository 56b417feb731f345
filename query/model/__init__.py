"""The values and types of ELF QL, its errors and its limits, and the expressions of plans. Imports nothing else of
`query`."""
