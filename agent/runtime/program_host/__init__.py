"""The host side of a job's program: carries out the calls that its code makes to the agent.

Frames of programs come in from the shell; messages go to other jobs' masters, and calls back to programs. Imports
`master`, `requests`, `job` and what lies below.
"""
