"""The figure of an overloaded agent: what never came is lost, and counts."""

from collections import Counter

from benchmarks.latency.overload import CODED, WITHIN_SHARE, CoreTime, Measured, Phase, Window

PHASE = Phase(1.8, 99.5, 109.5, CoreTime(agent=0.4, program=0.5, unused=0.1))
PER_S = 1_000


def measured() -> Measured:
    """An overload of ten seconds and a calm of ten, in which the coded job has half of its events."""
    seconds = range(95, 120)
    windows = {app: [Window(at, PER_S, 0, is_met=True, is_whole=True) for at in seconds] for app in WITHIN_SHARE}
    windows[CODED] = [
        Window(at, PER_S // 2, PER_S // 2, True, False) if at in PHASE.seconds else Window(at, PER_S, 0, True, True)
        for at in seconds
    ]
    return Measured(10.0, windows, [], [PHASE], Counter(dict.fromkeys(seconds, PER_S)))


def test_all_that_came_in_time_is_counted() -> None:
    found = measured()
    assert (found.lost(PHASE), found.lacking_after(PHASE)) == (0, 0)
    assert [found.in_time(app, PHASE) for app in found.windows] == [1.0, 1.0, 0.5]
    assert found.event_s(PHASE) == 0.4 / PER_S + 0.5 / (PER_S / 2)
    assert found.load(PHASE, found.event_s(PHASE)) == (0.4 + 2 * 0.5) / 1.0


def test_windows_that_never_came_are_lost_and_lacking() -> None:
    found = measured()
    for app in WITHIN_SHARE:
        found.windows[app] = [one for one in found.windows[app] if one.start_s in (95, 96)]
    assert found.lost(PHASE) == len(WITHIN_SHARE) * PER_S * len(PHASE.seconds)
    after = range(112, 119)
    assert found.lacking_after(PHASE) == len(WITHIN_SHARE) * len(after)


def test_the_third_window_and_all_after_it_have_to_be_whole() -> None:
    found = measured()
    for at in (111, 112, 118):
        found.windows[CODED] = [one for one in found.windows[CODED] if one.start_s != at]
    assert found.lacking_after(PHASE) == 2, "the first two may lack something"
