"""Placement of keys: states and runs come in, their parts for each tree of a job go out. It may import `function` and
`model`.
"""
