"""The offline half: the archive as a table on Spark, and what runs over it."""
