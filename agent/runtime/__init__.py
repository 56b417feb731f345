"""The job runtime, without input or output: worker, combiner, master, and what an agent does with them."""
