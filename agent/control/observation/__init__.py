"""Shows the fleet, the trees of jobs and samples of streams to clients."""
