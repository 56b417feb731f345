"""Certificates, keys and trust: who an agent or a creator is."""
