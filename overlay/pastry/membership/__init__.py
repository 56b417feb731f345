"""How a node joins, and how its tables are repaired and improved."""
