"""Programs: contained processes beside the agent in which the Python code of jobs runs.

Commands of the core come in, calls go to the programs, and what programs say and how they end goes back. The module
`calls` is the protocol, `child` the program's side. Imports nothing of the product but the log.
"""
