"""Sketches as rows, and as bytes of Apache DataSketches at the edge."""
