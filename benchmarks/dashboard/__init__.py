"""The page of `elf dashboard`, open for a long time in Chromium: what grows, and what it costs the agents."""
