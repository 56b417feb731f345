"""Requests of this agent's clients: commands to masters, questions to jobs, followed jobs, stream discovery, status.

Calls come in with a reply or a sink, and messages of masters by the router; messages go out through `MessageSender`,
replies and events to whoever passed the reply or the sink. Imports `job`, `fleet`, `messages` and `model`.
"""
