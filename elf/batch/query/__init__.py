"""ELF QL on Spark: natively where Spark computes exactly, else as coprocessors over regions."""
