"""The tables of a node: leaf set, routing table, neighbourhood set, and the peers that have departed."""
