"""Messages between agents about jobs: their types, the sender that encodes them, and the handlers that services list.

`client_events` has the events that followers of a job get, on this agent and over the control socket. Imports `model`.
"""
