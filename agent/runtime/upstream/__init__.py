"""Results of other jobs for the local jobs, as events and as tables to join with; look-up tables from files.

Events of followed jobs and answers to questions come in from `requests`; parsed events go to `ingest`, rows to the join
tables of running functions. Imports `requests`, `job` and what lies below.
"""
