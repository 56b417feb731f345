"""The archive as an HBase-style table: scan, get, put, split, compaction, ingest and export."""
