"""Files as sources: found by pattern, read to their end or followed as they grow and rotate."""
