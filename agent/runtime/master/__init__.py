"""A job's master: roster, frontier, windows, versions, replication, failover and subscribers."""
