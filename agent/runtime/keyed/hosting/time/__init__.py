"""Event time of a job: the lowest time that is still to come, and events that wait for it."""
