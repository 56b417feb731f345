"""The messages that agents send each other about jobs, how they are sent, and the form in which services handle them.

`client_events` are what followers of a job get, on this agent and over the control socket. Imports `model`.
"""
