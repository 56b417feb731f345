"""Creators, their signatures, and what they submit."""
