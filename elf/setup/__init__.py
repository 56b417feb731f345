"""Sets an agent up on a web server: finds the access logs that nginx and Apache write, and writes an `agent.toml`.

In: the configurations and logs below a root folder. Out: the text of a configuration. Imports the parsers of logs.
"""
