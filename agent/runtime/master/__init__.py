"""Masters of jobs: complete runs and requests of agents come in; results, commits, announcements and descriptors go
out. It may import `job` and all below it.
"""
