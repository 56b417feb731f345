"""The three tables of a node: leaf set, routing table and neighbourhood set."""
