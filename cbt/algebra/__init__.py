"""The base of all partial aggregates: their algebra, columns, kinds, scalars, key hashes and partitions. Imports
nothing else of `cbt`."""
