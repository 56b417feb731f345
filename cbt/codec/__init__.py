"""Bytes of the tree: frames of Arrow streams, compressed and bounded."""
