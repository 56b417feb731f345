"""Statistics of the durations of a phase: a partial aggregate, merged on the way up the tree, and its bytes.

Durations are whole microseconds and sums are whole numbers, so that merging is exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from query.latency.buckets import BUCKETS, LONGEST_US, bucket_bounds_us, bucket_of
from query.latency.phases import Phase

COUNT_MAX = 1 << 40
"""Upper bound on the durations that encoded statistics stand for; beyond, all counts and sums are halved to fit."""
STATISTICS_BYTES_MAX = 3_072
"""Upper bound on the bytes of encoded statistics of a phase, which 406 full buckets come near to; 50 buckets with some
hundred durations take about 130."""
PHASES_BYTES_MAX = len(Phase) * (STATISTICS_BYTES_MAX + 4)
"""Upper bound on the bytes of encoded statistics of all phases."""
_FORM = 1
_VARINT_BYTES_MAX = 24


@dataclass(slots=True)
class PhaseStatistics:
    """Durations of a phase: how many, sums of their first three powers (µs, µs², µs³), and how many in each bucket.

    `clipped` durations were negative, which count as 0, or longer than about an hour, which count as that; sums from
    other agents that do not fit their buckets are clipped as well. `refused` ones were no numbers, or bytes that are no
    statistics; they count for nothing else. Merging is associative and commutative, and exact.

    >>> one, other = PhaseStatistics.lift(0.002), PhaseStatistics.lift(0.004)
    >>> both = one.combine(other)
    >>> both.count, both.mean, both == other.combine(one)
    (2, 0.003, True)
    """

    count: int = 0
    sum_us: int = 0
    square_us: int = 0
    cube_us: int = 0
    buckets: dict[int, int] = field(default_factory=dict)
    """Bucket → durations in it; never 0."""
    clipped: int = 0
    refused: int = 0

    @classmethod
    def lift(cls, seconds: float) -> PhaseStatistics:
        """The statistics of one duration."""
        made = cls()
        made.add(seconds)
        return made

    def add(self, seconds: float, count: int = 1) -> None:
        """Count a duration (s), so many times. O(log buckets)."""
        if not isinstance(seconds, int | float) or math.isnan(seconds):
            self.refused += count
            return
        limited = min(max(seconds * 1e6, 0.0), float(LONGEST_US))
        duration = round(limited)
        self.clipped += count * (limited != seconds * 1e6)
        bucket = bucket_of(duration)
        self.count += count
        self.sum_us += count * duration
        self.square_us += count * duration**2
        self.cube_us += count * duration**3
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def combine(self, other: PhaseStatistics) -> PhaseStatistics:
        """The statistics of the durations of both; neither is changed. O(buckets)."""
        buckets = dict(self.buckets)
        for bucket, count in other.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
        return PhaseStatistics(
            self.count + other.count,
            self.sum_us + other.sum_us,
            self.square_us + other.square_us,
            self.cube_us + other.cube_us,
            buckets,
            self.clipped + other.clipped,
            self.refused + other.refused,
        )

    @property
    def mean(self) -> float:
        """Mean duration (s); 0 without durations."""
        return self.raw_moments()[0]

    @property
    def variance(self) -> float:
        """Variance of durations (s²), of these and no others; 0 without durations."""
        if not self.count:
            return 0.0
        return (self.square_us * self.count - self.sum_us**2) / self.count**2 / 1e12

    def raw_moments(self) -> tuple[float, float, float]:
        """Means of durations, of their squares and of their cubes (s, s², s³); 0 without durations."""
        count = max(self.count, 1)
        return self.sum_us / count / 1e6, self.square_us / count / 1e12, self.cube_us / count / 1e18

    def to_bytes(self) -> bytes:
        """The encoded form, at most STATISTICS_BYTES_MAX long: unsigned LEB128 numbers. Those are the form, what was
        clipped, what was refused, the three sums, the number of buckets, then for each bucket in ascending order how
        far it is from the one before, and its durations. The number of durations is what is in the buckets.
        """
        kept = self
        while kept.count > COUNT_MAX:
            kept = kept._halved()
        numbers = [_FORM, min(kept.clipped, COUNT_MAX), min(kept.refused, COUNT_MAX)]
        numbers += [kept.sum_us, kept.square_us, kept.cube_us, len(kept.buckets)]
        before = 0
        for bucket in sorted(kept.buckets):
            numbers += [bucket - before, kept.buckets[bucket]]
            before = bucket
        return _encoded(numbers)

    @classmethod
    def from_bytes(cls, data: bytes) -> PhaseStatistics:
        """The statistics in bytes of another agent. Never raises: bytes that are none give statistics without
        durations and one more `refused`; sums that durations in these buckets cannot have are clipped to those that
        they can have, and one more is `clipped`. O(bytes).
        """
        try:
            if len(data) > STATISTICS_BYTES_MAX:
                raise ValueError("too long")
            return _read(_decoded(data))
        except ValueError:
            return cls(refused=1)

    def _halved(self) -> PhaseStatistics:
        buckets = {bucket: (count + 1) // 2 for bucket, count in self.buckets.items()}
        sums = (self.sum_us // 2, self.square_us // 2, self.cube_us // 2)
        return PhaseStatistics(sum(buckets.values()), *sums, buckets, self.clipped, self.refused)


def phases_to_bytes(phases: Mapping[Phase, PhaseStatistics]) -> bytes:
    """The encoded statistics of phases, at most PHASES_BYTES_MAX long; those without durations and counts are left out.

    >>> phases_from_bytes(phases_to_bytes({Phase.SEAL: PhaseStatistics.lift(0.25)}))[Phase.SEAL].mean
    0.25
    """
    parts = []
    for phase in Phase:
        told = phases.get(phase, _NONE)
        if told != _NONE:
            data = told.to_bytes()
            parts += [bytes([phase]), len(data).to_bytes(2, "big"), data]
    return b"".join(parts)


def phases_from_bytes(data: bytes) -> dict[Phase, PhaseStatistics]:
    """The statistics of all phases in bytes of another agent. Never raises: those of a phase that are none are
    `refused`, once, and so are all from the place on where the bytes end early. Phases that this release does not know
    are passed over; of a phase that comes twice the first counts. O(bytes).
    """
    found: dict[Phase, PhaseStatistics] = {}
    at = 0
    data = data[: PHASES_BYTES_MAX + 1]
    while at < len(data):
        number, size = data[at], int.from_bytes(data[at + 1 : at + 3], "big")
        end = at + 3 + size
        told = data[at + 3 : end] if at + 3 <= len(data) and end <= min(len(data), PHASES_BYTES_MAX) else b""
        if number < len(Phase):
            found.setdefault(Phase(number), PhaseStatistics.from_bytes(told))
        at = end
    return {phase: found.get(phase, PhaseStatistics()) for phase in Phase}


def _encoded(numbers: Iterable[int]) -> bytes:
    encoded = bytearray()
    for number in numbers:
        while number > 0x7F:
            encoded.append(number & 0x7F | 0x80)
            number >>= 7
        encoded.append(number)
    return bytes(encoded)


def _decoded(data: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
        elif shift >= 7 * _VARINT_BYTES_MAX:
            raise ValueError("a number is too long")
    if shift:
        raise ValueError("ends within a number")
    return numbers


def _read(numbers: list[int]) -> PhaseStatistics:
    if len(numbers) < 7 or numbers[0] != _FORM or len(numbers) != 7 + 2 * numbers[6]:
        raise ValueError("not of this form")
    _, clipped, refused, *sums = numbers[:6]
    buckets: dict[int, int] = {}
    bucket = 0
    for step, count in zip(numbers[7::2], numbers[8::2], strict=True):
        bucket += step
        if (buckets and not step) or bucket >= BUCKETS or not count:
            raise ValueError("a bucket that cannot be")
        buckets[bucket] = count
    total = sum(buckets.values())
    if max(total, clipped, refused) > COUNT_MAX:
        raise ValueError("too many")
    bounds = {bucket: bucket_bounds_us(bucket) for bucket in buckets}
    kept = [
        min(
            max(told, sum(count * bounds[bucket][0] ** power for bucket, count in buckets.items())),
            sum(count * bounds[bucket][1] ** power for bucket, count in buckets.items()),
        )
        for power, told in enumerate(sums, 1)
    ]
    return PhaseStatistics(total, kept[0], kept[1], kept[2], buckets, clipped + (kept != sums), refused)


_NONE = PhaseStatistics()
