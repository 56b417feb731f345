"""Online parameter optimization: tunes numbers of a site by its own traffic (S4, section V and figure 7).

Web servers deal their visits to two slices, anew in each slot, and apply to each slice the parameters that the job
shows them in `shown/opo.json`. For every visit they log its slice, its experiment as shown, and its value, such as 1
for a click and 0 for none. Each slice is measured slot by slot; slots of the two are compared in pairs until one slice
is better or both are equal; then the next two points are tried. Visits beyond the slices get the best point so far.

Every element keeps its state in case its host dies. Every object of the job knows the parameters that apply.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import elf
from elf.optimization import Comparator, MeasuredSlot, NelderMead, Parameter, SliceMeter

# Change these for your site. A slot should hold some 100,000 visits of each slice, where 5 of 100 click.
PARAMETERS = [Parameter("prominence", low=0.0, high=1.0, start=0.2, step=0.2)]
SLOT_MS = 500
VISITS_MIN = 20

SLICES = ("a", "b")
PAIR = "a:b"
VERDICTS_MAX = 10_000
"""Comparisons after which the search begins anew, from the best point."""
AHEAD_S = 60
"""Experiments are numbered from the second on in which the first begins, so none is further ahead of its visits."""

Visit = elf.source("SELECT slice, experiment, value FROM visits WHERE slice = 'a' OR slice = 'b'")


@elf.event
class Slot:
    pair: str
    slice: str
    experiment: int
    number: int
    visits: int
    mean: float
    valid: bool


@elf.event
class Outcome:
    pair: str
    experiment: int
    verdict: int
    slots: int
    visits: int
    difference: float


@elf.event
class Setting:
    experiment: int
    shown: str


class Measurement(elf.PE):  # one per slice
    keys = {Visit: "slice"}
    ordered = True
    every_s = SLOT_MS / 1000
    state: dict[str, Any] = {}

    def process_event(self, visit: Any) -> None:
        if is_sound(visit):
            meter = self.meter()
            self.take(meter, meter.add(visit.time_ms, visit.experiment, visit.value))

    def output(self) -> None:
        meter = self.meter()
        self.take(meter, meter.pass_to(self.time_ms))

    def meter(self) -> SliceMeter:
        return SliceMeter(slot_ms=SLOT_MS, events_min=VISITS_MIN, **self.state)

    def take(self, meter: SliceMeter, slot: MeasuredSlot | None) -> None:
        self.state = meter.state
        if slot is not None:
            self.emit(Slot(PAIR, self.key, *slot))


class Comparison(elf.PE):  # one per pair of slices
    keys = {Slot: "pair"}
    state: dict[str, Any] = {}

    def process_event(self, slot: Slot) -> None:
        comparator = Comparator()
        comparator.restore(self.state)
        measured = MeasuredSlot(slot.experiment, slot.number, slot.visits, slot.mean, slot.valid)
        outcome = comparator.add(SLICES.index(slot.slice), measured)
        self.state = comparator.state
        if outcome is not None:
            self.emit(Outcome(slot.pair, *outcome))


class Optimizer(elf.PE):  # one per pair of slices
    keys = {Outcome: "pair"}
    every_s = 1  # for masters that have just become it
    experiment: int = 0
    start: list[float] = []
    verdicts: list[int] = []
    last: dict[str, Any] = {}

    def process_event(self, outcome: Outcome) -> None:
        if outcome.experiment < self.experiment:
            return
        if self.experiment in (0, outcome.experiment):  # else the site has tried what was not asked for
            self.last = {
                **shown_of(outcome.experiment, search_of(self.start, self.verdicts)),
                "verdict": outcome.verdict,
                "slots": outcome.slots,
                "visits": outcome.visits,
                "difference": outcome.difference,
            }
            self.verdicts = [*self.verdicts, outcome.verdict]
        if len(self.verdicts) >= VERDICTS_MAX:
            self.start, self.verdicts = list(search_of(self.start, self.verdicts).best), []
        self.experiment = outcome.experiment + 1
        self.output()

    def output(self) -> None:
        if self.experiment:
            shown = shown_of(self.experiment, search_of(self.start, self.verdicts)) | {"last": self.last}
            self.emit(Setting(self.experiment, json.dumps(shown)))


def is_sound(visit: Any) -> bool:
    """Whether a visit can be counted: logs may hold anything."""
    is_number = isinstance(visit.value, int | float) and not isinstance(visit.value, bool)
    return is_number and isinstance(visit.experiment, int) and 0 < visit.experiment <= visit.time_ms // 1000 + AHEAD_S


def search_of(start: Sequence[float], verdicts: Sequence[int]) -> NelderMead:
    """The search after these verdicts, from `start` or else where the parameters start."""
    starts = start or [one.start for one in PARAMETERS]
    moved = [Parameter(one.name, one.low, one.high, at, one.step) for one, at in zip(PARAMETERS, starts, strict=True)]
    return NelderMead(moved, verdicts)


def named(point: Sequence[float]) -> dict[str, float]:
    return {one.name: round(value, 9) for one, value in zip(PARAMETERS, point, strict=True)}


def shown_of(experiment: int, search: NelderMead) -> dict[str, Any]:
    """The value that web servers are shown."""
    slices = {name: named(point) for name, point in zip(SLICES, search.pair, strict=True)}
    return {"experiment": experiment, "slices": slices, "best": named(search.best)}


def told(last: Mapping[str, Any]) -> str:
    """The outcome of an experiment as a line."""
    first, second = (
        ", ".join(f"{name} {value:.4g}" for name, value in last["slices"][slice_].items()) for slice_ in SLICES
    )
    words = {1: "is better than", 0: "is equal to", -1: "is worse than"}[last["verdict"]]
    return f"{first} {words} {second}: {last['difference']:+.4g} over {last['slots']} slots"


@elf.message
@dataclass(frozen=True)
class Apply:
    """The parameters to apply from now on."""

    experiment: int
    shown: str


class Opo(elf.Job):
    """Tunes the parameters."""

    elements = [Measurement, Comparison, Optimizer]
    query = """
        SELECT experiment, shown, COUNT(*) AS times FROM Setting
        GROUP BY experiment, shown WINDOWING 1 SECOND GRACE 1 SECOND
    """
    timer_s = 2.0

    def __init__(self) -> None:
        self.applied: Apply | None = None
        self.timers = 0

    def on_timer(self) -> None:
        self.timers += 1
        if not self.is_root:
            return
        if self.applied is not None:  # for agents that have come since
            self.multicast(self.applied)
        elif self.timers > 1:  # no master before this one, and no result of one
            experiment = max(1, self.now_ms // 1000)  # later than those of any run before
            self.multicast(Apply(experiment, json.dumps(shown_of(experiment, search_of([], [])))))

    def on_multicast(self, app: str, message: Apply) -> None:
        if self.applied is None or message.experiment > self.applied.experiment:
            self.applied = message
            self.show(json.loads(message.shown))

    def on_result(self, window: elf.Window) -> None:
        for row in sorted(window.rows, key=lambda row: row["experiment"]):
            if self.applied is None or row["experiment"] > self.applied.experiment:
                shown = json.loads(row["shown"])
                if shown["last"]:
                    self.log(f"{told(shown['last'])}; best {json.dumps(shown['best'])}")
                self.multicast(Apply(row["experiment"], row["shown"]))
