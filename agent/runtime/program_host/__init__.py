"""The host side of a job's program: what its code may ask of the agent."""
