"""This agent's side of a job: its deployment, its code, its place in the job's trees."""
