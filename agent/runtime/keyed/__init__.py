"""Keyed processing elements (S4): events go to the agent that hosts the element of their key, and state moves when
agents come, leave or die. Frames of events come in from sources and peers, frames of events go out to peers and to the
job's queries. It may import `job`, `ingest`, `function`, `messages` and `model`.
"""
