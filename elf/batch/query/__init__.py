"""ELF QL on Spark: natively where Spark computes exactly, else as coprocessors over regions. Queries and archive tables
come in, results go out. May import `elf.batch.table` and `elf.batch.session`.
"""
