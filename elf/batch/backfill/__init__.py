"""Backfills: windows of the past computed from the archive and handed over to the live job. A job's name and archives
come in, lines of results go out. May import all of `elf.batch`.
"""
