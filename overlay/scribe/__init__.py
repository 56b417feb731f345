"""Scribe: groups as trees over Pastry's routes, and multicast down them."""
