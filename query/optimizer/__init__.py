"""Rewrite rules: a plan comes in, a plan that gives the same answer with less work goes out, one rule a file
(docs/compiler.md). Imports `query.execution`, to compute constants, and `query.plan` and what lies below."""

from query.optimizer.rules import RULES, Rewriting, Rule, rewrite

__all__ = ["RULES", "Rewriting", "Rule", "rewrite"]
