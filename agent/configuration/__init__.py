"""Configuration of an agent: reads `agent.toml` and checks it against the registries of sources and formats.

The path of a file comes in, a `Config` goes out, or a `ConfigError` with every fault and its line. Imports parsing and
sources.
"""
