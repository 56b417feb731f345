"""The control socket: what clients may ask of an agent, and the answers."""
