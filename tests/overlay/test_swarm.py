"""Overlays against everything at once. A failure names its seed, what was drawn, and what happened last."""

import pytest
from seeds import seeds
from swarm import Swarm

SMALL = range(12)
SEEDS = seeds(*SMALL[:4], slow=range(4, 240))
SIZE_MAX, SIZE_MAX_SLOW = 16, 40
LOG_LINES = 30


@pytest.mark.parametrize("seed", SEEDS)
def test_a_core_recovers_from_whatever_happened(seed: int) -> None:
    swarm = Swarm(seed, SIZE_MAX if seed in SMALL else SIZE_MAX_SLOW)
    try:
        swarm.run()
    except BaseException:
        test = test_a_core_recovers_from_whatever_happened.__name__
        print(f"seed {seed}: {swarm.draw}", *swarm.log[-LOG_LINES:], sep="\n")
        print(f"again: python -m pytest 'tests/overlay/test_swarm.py::{test}[{seed}]'")
        raise
    observer = swarm.observer
    print(f"seed {seed}: {swarm.draw}; whole after {swarm.recovered_s:.0f} s; two roots for {observer.overlap_s:.1f} s")


@pytest.mark.parametrize("seed", [3, 7])
def test_a_seed_fixes_all_that_happens(seed: int) -> None:
    def run_trace() -> tuple[str, int, list[str]]:
        swarm = Swarm(seed, 8)
        swarm.run()
        return swarm.simulator.trace_hash(), swarm.simulator.delivered, swarm.log

    assert run_trace() == run_trace()
