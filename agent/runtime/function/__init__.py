"""The function of a job, decoded from its plan: events and states come in, states and window rows go out. It may import
`messages` and `model`.
"""
