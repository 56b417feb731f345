"""Results for people (tables, charts) and programs (JSON lines, CSV)."""
