"""The messages agents exchange about jobs, and their sender."""
