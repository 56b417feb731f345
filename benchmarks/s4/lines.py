"""Lines of this benchmark's report. A case is `{label}: {place}`."""

from functools import partial

from benchmarks.report import reaching, throughput, within

NAME = "s4"
AGENTS = 8
LEVEL = "agents, TLS, programs; events by client.emit"
"""Where keys are counted, as the lines say."""
at_most = partial(within, NAME)
"""A figure where less is better, with the most it may be; without that it is only printed."""
at_least = partial(reaching, NAME)
beside = partial(throughput, NAME)
"""A figure where more is better, next to a rival's of the same run."""
