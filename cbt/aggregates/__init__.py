"""Aggregate functions as partial aggregates (PAOs): lift, combine, lower and, where it exists, subtract. In comes a
function's name with its parameters, out comes its PAO. Imports `cbt.sketches` and `cbt.algebra`."""
