"""The kernel of the compressed buffer tree, outside the interpreter: aggregates rows, and merges into leaves.

Comes as a few C sources without Python's ABI, built when ELF is installed. Where it cannot be built or loaded, the tree
sorts and merges by NumPy and Polars, which mean the same. `loading` loads such libraries, and `arrow` hands their
columns over, for other rooms too. May
import nothing but libraries.
"""
