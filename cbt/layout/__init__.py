"""The layout of a tree: in come keys and aggregates, out come the columns of their states and the algebra over whole
frames. Imports `cbt.aggregates` and `cbt.algebra`."""
