"""The control socket: requests of clients, and the answers.

Lines of JSON come in and go out; calls go to the agent's core through the driver. Imports the runtime, `feeding` and
`configuration`.
"""
