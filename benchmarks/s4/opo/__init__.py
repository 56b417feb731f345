"""Sites with a known optimum, tuned by the shipped job's code."""
