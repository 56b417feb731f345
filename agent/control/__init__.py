"""The control socket: takes requests of clients and answers them.

Lines of JSON come in and go out; calls go to the agent's core through the driver. Imports the runtime, `feeding` and
`configuration`.
"""
