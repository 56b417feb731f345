"""The fleet as one agent knows it: its jobs, their names, and the creators it trusts."""
