"""The process a job's code runs in: it answers its agent's calls with the job's callbacks."""
