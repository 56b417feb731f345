"""Places logical nodes: configurations, the agreement on them, and the carrying out of what was agreed."""
