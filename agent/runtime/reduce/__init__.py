"""Reducer trees: runs of children and of the agent's own worker come in, are combined, kept, and sent to the parent as
snapshots; at the master's agent, complete runs go out to be published. It may import `keyed`, `function`, `messages`
and `model`.
"""
