"""Lines of this benchmark's report. A case is `{label}: {place}`, so that places become points of a curve."""

from functools import partial

from benchmarks.report import reaching, within

NAME = "jobs"
AGENTS = 8
MANY = 32
TARGET_AGENTS = 1_280
"""The fleet of the paper's figures."""
at_most = partial(within, NAME)
"""A figure where less is better, with the most it may be; without that it is only printed."""
at_least = partial(reaching, NAME)
