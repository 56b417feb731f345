"""On disk and in a snapshot, every aggregate function is what it is in memory."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from every_function import EVENTS, KEYS, TOGETHER, USER_FUNCTIONS, Event, blocks, check_results, layout_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cbt import CompressedBufferTree


@settings(max_examples=max(1, settings.default.max_examples // 10))
@given(events=EVENTS, limit_bytes=st.sampled_from([1, 5000]), choose=st.randoms(use_true_random=False))
def test_all_functions_on_disk_and_in_a_snapshot(events: list[Event], limit_bytes: int, choose: Random) -> None:
    layout = layout_of(TOGETHER)
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr("cbt.tree.interior._COMPACT_ROWS", 8)
        tree = CompressedBufferTree(
            KEYS,
            TOGETHER,
            seed=3,
            functions=USER_FUNCTIONS,
            buffer_rows=choose.randint(1, 20),
            leaf_rows=choose.randint(2, 40),
            memory_limit_bytes=limit_bytes,
            spill_directory=Path(directory),
        )
        for block in blocks(events):
            tree.insert(block)
            if choose.random() < 0.3:
                tree.restore(tree.snapshot())
            tree.check()
            assert tree.memory_bytes <= limit_bytes
        check_results(layout, layout.combine(tree.flush()), events)
        tree.close()
