"""Shoppers, and the load they put on the shop."""
