"""Exact arithmetic and canonical values on columns."""
