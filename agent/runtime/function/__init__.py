"""The function of a job: its plan compiled, its versions, and the results it makes."""
