"""Frames to compressed bytes, and bytes from anyone to bounded, checked frames. Imports nothing else of `cbt`."""
