"""Blocks taken apart for the archive: one record a row, with the fields of its event as typed columns.

Blocks come in through `RecordReader.read`; `Records` go out. Imports the parsers and nothing above them.
"""
