"""Queues of workers against a loop over rows, however rows are cut into blocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elf.rehearsal.queues import ServerQueues
from elf.rehearsal.served import Served, distinct_pairs

SPEEDS = (1.0, 0.5, 3.0, 0.25)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 2)), max_size=60)


@given(rows=ROWS, cuts=st.lists(st.integers(0, 60), max_size=4))
def test_rows_are_done_after_those_before_them_at_their_server(rows: list[tuple[int, float]], cuts: list[int]) -> None:
    servers = np.array([server for server, _ in rows], np.int16)
    arrivals_s = np.cumsum([gap for _, gap in rows]) if rows else np.empty(0)
    free = [0.0] * len(SPEEDS)
    expected = []
    for server, arrival in zip(servers.tolist(), arrivals_s.tolist(), strict=True):
        free[server] = max(free[server], arrival) + SPEEDS[server]
        expected.append(free[server])
    queues = ServerQueues(np.array(SPEEDS))
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    blocks = [slice(begin, end) for begin, end in pairwise(edges)]
    found = np.concatenate([queues.finished(servers[block], arrivals_s[block]) for block in blocks])
    assert np.allclose(found, expected, atol=1e-9)


@given(rows=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3)), max_size=80), panes=st.integers(1, 5))
def test_entries_are_different_pairs_of_key_and_server(rows: list[tuple[int, int]], panes: int) -> None:
    keys = np.array([key for key, _ in rows], np.int32)
    servers = np.array([server for _, server in rows], np.int16)
    assert distinct_pairs(keys, servers) == len(set(rows))
    served = Served(servers, np.zeros(len(rows)), np.zeros(len(rows)))
    edges = np.linspace(0, len(rows), panes + 1).astype(int).tolist()
    parts = [rows[begin:end] for begin, end in pairwise(edges)]
    assert served.entries(keys) == len(set(rows))
    assert served.entries_of_panes(keys, panes) == sum(len(set(part)) for part in parts)
