"""Routing of messages to a key, hop by hop, and requests with their responses."""
