"""Physical values: Polars expressions with the kind and range of their columns, and exact arithmetic on them. Imports
`query.model`."""
