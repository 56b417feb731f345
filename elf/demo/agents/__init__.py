"""Real agents of the demo, as processes."""
