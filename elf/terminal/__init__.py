"""Text on a terminal: escaped, listed, redrawn in place."""
