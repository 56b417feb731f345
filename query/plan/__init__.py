"""The plan of a query: plain data with typed expressions, its form on the wire, and the costs of expressions. Imports
`query.functions`, `query.syntax` and what lies below."""
