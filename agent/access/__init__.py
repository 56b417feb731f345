"""Rights of clients: rules and requests come in, refusals for people come out.

Knows neither sockets nor certificates: `agent.control` says who a client is and what its request needs.
"""
