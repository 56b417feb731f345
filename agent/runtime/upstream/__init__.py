"""Results of other jobs and tables of files, as events and as join partners."""
