"""Grammar, syntax tree, parser and printer."""
