"""agent.toml, checked, every fault with its line."""
