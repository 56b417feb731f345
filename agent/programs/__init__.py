"""Python code of jobs: the process it runs in, and what that process and its agent say to each other."""
