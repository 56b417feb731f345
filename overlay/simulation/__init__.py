"""Networks in memory and in virtual time, for embedded fleets and tests. Imports the node and everything below it."""
