"""The archive as an HBase-style table: scan, get, put, split, compaction, ingest and export. URIs of agents' stores
come in, Spark frames and committed segments go out. May import `elf.batch.session`.
"""
