"""Rewrite rules: a plan to one that answers the same with less work, one rule a file (docs/compiler.md)."""

from query.optimizer.rules import RULES, Rewriting, Rule, rewrite

__all__ = ["RULES", "Rewriting", "Rule", "rewrite"]
