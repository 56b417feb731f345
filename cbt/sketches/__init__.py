"""Sketches as rows, which are merged like any others, and as bytes of Apache DataSketches. Imports `cbt.algebra`."""
