"""`python -m agent.archive agent.toml`: archives an agent's streams."""

import sys

from agent.archive.writer.process import main

sys.exit(main(sys.argv[1:]))
