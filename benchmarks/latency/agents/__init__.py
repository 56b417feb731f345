"""Agents with another object in the place of one of ELF's: ELF has no switches for that."""
