"""What creators of jobs sign."""
