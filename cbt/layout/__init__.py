"""The layout of a tree: its keys and aggregates, and the states they become."""
