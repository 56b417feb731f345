"""Measures how long results take, phase by phase."""
