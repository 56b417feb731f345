"""Lines of this benchmark's report. A case is `{label}: {place}`; places are streams, numbers of workers, or values."""

from functools import partial

from benchmarks.report import reaching, smaller, throughput, within

NAME = "fish"
WORKERS = 128
OURS = "fish"
RIVALS = ("fields", "pkg", "dchoices", "wchoices", "published")
at_most = partial(within, NAME)
"""A figure where less is better, with the most it may be; without that it is only printed."""
at_least = partial(reaching, NAME)
less = partial(smaller, NAME)
"""A figure where less is better, next to a rival's of the same run."""
more = partial(throughput, NAME)
