"""How far logs are safe: after a restart reading goes on there, and events have the numbers that they had."""

from __future__ import annotations

import trio
import trio.testing

from agent.feeding.kept_places import KeptPlaces, read_kept_places
from agent.runtime.durable.records import Place
from agent.runtime.keyed.reading_progress import MARKS_MAX, KeptPlace, ReadingProgress
from agent.runtime.model.epoch import JobTerm
from agent.sources.file.followed_file import ReadUpTo

OLD, NEW = (1, 10), (1, 11)
"""Two files of a stream."""


def test_a_place_is_safe_when_all_before_it_is_acknowledged_in_every_channel():
    progress = ReadingProgress(7)
    first, second = progress.channel(-1, OLD), progress.channel(-1, NEW)
    assert first != second
    progress.take(OLD, 5)
    progress.note(Place(1, "after five"), {first: 4})
    progress.take(NEW, 3)
    progress.note(Place(2, "after eight"), {second: 2})
    acknowledged = {first: 3, second: 2}
    assert progress.safe(acknowledged.__getitem__) is None
    acknowledged[first] = 4
    place, counts = progress.safe(acknowledged.__getitem__)
    assert (place.reading, counts) == ("after eight", {OLD: 5, NEW: 3})


def test_what_is_read_again_has_the_numbers_and_channels_that_it_had():
    progress = ReadingProgress(7)
    progress.take(OLD, 5)
    progress.note(Place(1, "after five"), {})
    assert progress.take(OLD, 4) == 5
    place, counts = progress.safe(lambda _channel: -1)
    kept = KeptPlace(JobTerm(1, 2), "quotes", progress.incarnation, place.reading, counts)
    again = ReadingProgress.after(kept)
    assert again.take(OLD, 4) == 5
    assert again.channel(-1, OLD) == progress.channel(-1, OLD)
    place, counts = again.safe(lambda _channel: -1)
    assert (place.reading, counts) == ("after five", {OLD: 5}), "nothing later is known to be safe"
    assert ReadingProgress(8).channel(-1, OLD) != progress.channel(-1, OLD), "what begins anew is numbered anew"


def test_places_that_nobody_asks_for_are_few_and_none_is_safe_too_early():
    progress = ReadingProgress(7)
    for number in range(10 * MARKS_MAX):
        progress.take(OLD, 1)
        progress.note(Place(number), {-1: number})
    place, counts = progress.safe(lambda _channel: 9 * MARKS_MAX)
    assert place.number <= 9 * MARKS_MAX
    assert counts == {OLD: place.number + 1}


def test_places_are_in_a_file_for_the_next_process(tmp_path):
    path, warned, told = tmp_path / "kept-places", [], []
    assert read_kept_places(path, lambda *words: warned.append(words)) == []
    files = (ReadUpTo("/var/log/quotes.json", OLD, 9, "digest", 1234, 5),)
    kept = KeptPlace(JobTerm(2**127, 1_700_000_000_000), "quotes", 7, files, {OLD: 50})

    async def store() -> None:
        with trio.move_on_after(2.0):
            await KeptPlaces(path, lambda: [kept], told.append, lambda *words: warned.append(words)).run()

    trio.run(store, clock=trio.testing.MockClock(autojump_threshold=0.05))
    assert read_kept_places(path, lambda *words: warned.append(words)) == [kept]
    assert told[0] == [kept], "reading may begin now"
    assert warned == []
    path.write_bytes(b'{"version": 2, "places": []}')
    assert read_kept_places(path, lambda *words: warned.append(words)) == []
    assert len(warned) == 1
