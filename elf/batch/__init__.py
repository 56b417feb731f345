"""The offline half of ELF: the agents' archives as one table on Spark, and queries, reconciliation and backfills over
it. Archives and queries come in; results and rewritten archives go out. Only this package may import pyspark, py4j and
pyarrow; of `elf` it uses `local`, `client`, `output` and `terminal`.
"""
