"""The agent's core, without input or output: services around one overlay node, a router for messages, a list of timers.

Events of the overlay, blocks of parsed events, calls of clients and frames of programs come in; messages, replies,
events of followed jobs and commands for programs go out. Imports `overlay`, `query`, `cbt` and `agent.parsing`; knows
no clock, socket or thread. The packages stand in layers (see pyproject.toml): model, messages, function and fleet,
ingest and reduce, job, master and requests, upstream and program_host.
"""
