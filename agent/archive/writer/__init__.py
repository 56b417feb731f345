"""The archiver: a process beside the agent that follows its streams and writes them into its store."""
