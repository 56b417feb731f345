"""What every layer of a node shares: events, the outbox, counters, randomness and the memory of message ids."""
