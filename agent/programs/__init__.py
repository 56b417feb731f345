"""Programs: the contained processes, beside the agent, in which the Python code of jobs runs."""
