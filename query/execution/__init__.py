"""A plan as Polars expressions over events and over results."""
