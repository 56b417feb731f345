"""The story of the demo: its acts, its screen, and the final tally."""
