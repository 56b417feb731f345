"""Counts keys with an update out per event: ELF's agents beside rivals, and its cores and programs without agents."""
