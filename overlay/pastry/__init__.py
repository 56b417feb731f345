"""Pastry: the tables of a node, how it joins, notices failures and mends what they leave behind."""
