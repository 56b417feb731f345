"""Results that are published: the last ones, those who read them, and the job's log."""
