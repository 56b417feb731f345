"""`python -m elf.program`: the process of one job's code, started by its agent."""

from agent.programs.child import serve
from elf.program.runner import Runner

serve(Runner)
