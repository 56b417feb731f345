"""A web shop of several servers that write real logs."""
