"""The demo of keyed elements: servers whose logs are written before the viewer's eyes, agents beside them, one that
hosts elements alone and is killed, and results held against the logs. May import the other packages of the demo.
"""
