"""The archive: a stream's lines, unchanged, as rows of a table that Spark reads."""
