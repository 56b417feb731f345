"""Raises the number of files that this process may have open."""

from __future__ import annotations

import resource


def allow_open_files(wanted: int) -> None:
    """Asks for as many open files, as far as that is permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
