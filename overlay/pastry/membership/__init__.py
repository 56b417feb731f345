"""Joining, and the repair and improvement of a member's tables."""
