"""Raises the limits the operating system sets for this process."""

from __future__ import annotations

import resource

DESCRIPTORS_WANTED = 8192
"""Links to 1,024 peers, and files of a few streams."""


def raise_descriptor_limit() -> None:
    """Asks for as many open files as an agent may need, as far as that is permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(DESCRIPTORS_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
