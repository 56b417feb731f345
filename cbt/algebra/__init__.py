"""What every partial aggregate is made of: columns, kinds, scalars, key hashes and partitions."""
