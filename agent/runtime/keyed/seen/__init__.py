"""Shows people the elements of a job: describes them, finds the state of one, and tells the master what was lost. It
may import `elements`, `logical_nodes`, `messages`, `master` and `job`.
"""
