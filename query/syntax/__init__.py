"""Grammar, syntax tree, parser and printer: a query's text comes in, its tree goes out, and back. Imports
`query.model`."""
