"""The story of the demo: its schedule, its screen, and the final comparison with the logs."""
