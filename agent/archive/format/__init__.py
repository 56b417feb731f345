"""The archive on disk: row keys, segments, the log of a store, and records taken apart into columns."""
