"""The process that runs a job's code: it answers its agent's calls with the job's callbacks. Frames of `agent.programs`
come in and go out. May import `elf.job` and `agent.programs`.
"""
