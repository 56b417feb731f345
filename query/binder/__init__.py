"""From syntax tree to plan: names resolved, types inferred, clauses checked."""
