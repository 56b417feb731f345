"""Elements on columns: a batch of events comes in, emitted events and changed states go out. It may import `function`
and `model`; it knows nothing of peers.
"""
