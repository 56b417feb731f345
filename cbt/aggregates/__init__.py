"""Aggregate functions as partial aggregates (PAOs): lift, combine, lower and, where it exists, subtract."""
