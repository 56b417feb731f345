"""The reducer tree: runs of children and workers combined, kept and passed on to the parent."""
