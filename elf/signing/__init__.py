"""Creators, their signatures, and the jobs they submit. Job files and a creator's folder come in, signed bundles go
out. May import `elf.client`, `elf.program` and `elf.terminal`.
"""
