"""Watches whether the results of a live job take as long as its plan says, and has that changed where they do not."""
