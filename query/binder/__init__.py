"""The pass from a syntax tree to a plan: resolves names, infers types, checks clauses. Imports `query.plan` and what
lies below."""
