"""Owners of key groups, at the master: where groups are, what they cost, and the windows that owners make."""
