"""The plan of a query, its bytes and its cost."""
