"""The demo of shipped jobs: they are started, watched, and compared with plain counts of the logs. May import the other
packages of the demo.
"""
