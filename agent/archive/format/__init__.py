"""The archive on disk: row keys, rows, segments, and the log of a store.

The writer and the offline half read and write stores through it. Imports configuration, parsing and sources.
"""
