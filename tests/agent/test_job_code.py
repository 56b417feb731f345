"""Jobs written in Python, over agents in memory: what their callbacks see, and what comes of what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from memory_fleet import WALL_MS, events
from program_fleet import Person, ProgramFleet

from agent import Ended, StopAnswered, Submit, SubmitRefused, Update, UpdateAnswered, UpdateRefused
from agent.runtime.creators import NoCreators
from agent.runtime.names import AmbiguousNameError
from elf.sealing import stopping
from overlay import Id

Make = Callable[..., ProgramFleet]


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Make]:
    made: list[ProgramFleet] = []

    def make(size: int = 3, **options: object) -> ProgramFleet:
        made.append(ProgramFleet(tmp_path / str(len(made)), size, **options))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


TEN_LINES = """
    import elf

    class Counts(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"

        def on_result(self, window):
            for row in window.rows:
                self.log(f"{row['product']}: {row['n']}")
"""


def feed(fleet: ProgramFleet, second: float, *products: str) -> None:
    for number in range(len(fleet.agents)):
        fleet.insert(number, events(*products, at_ms=WALL_MS + int(second * 1000)))
    fleet.settle()


def test_the_master_of_a_job_gets_its_windows(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    fleet.catch_up()
    feed(fleet, 1.2, "a", "b", "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    assert fleet.results[0].rows[0] == {"product": "a", "n": 6}
    assert [text for _, text in fleet.log(key)] == ["a: 6", "b: 3"]


FIGURE_7 = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class TopK:
        products: list[str]

    @elf.message
    @dataclass(frozen=True)
    class Update:
        pane: int

    class MicroPromotion(elf.Job):
        query = "SELECT product, COUNT(*) AS clicks FROM web GROUP BY product ORDER BY clicks DESC LIMIT 2"
        drives = True
        timer_s = 2.0

        def __init__(self):
            self.topk = []
            self.products = set()

        def on_timer(self):
            if self.is_root:
                self.multicast(TopK(self.topk))
                self.multicast(Update(self.now_ms))

        def on_multicast(self, app, message):
            if isinstance(message, TopK):
                for product in message.products:
                    if product in self.products:
                        self.log(f"discount on {product}")
            elif isinstance(message, Update):
                paos = self.cbt.flush()
                self.products = {row["product"] for row in paos.rows()}
                self.send_to(self.parent, paos, message.pane)
                self.cbt.empty()

        def on_result(self, window):
            self.topk = [row["product"] for row in window.rows]
"""


def test_figure_7_line_for_line(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(FIGURE_7)
    feed(fleet, 0.5, "a", "b", "b", "c", "c", "c")
    fleet.wait_long(2.5)
    assert [[(row["product"], row["clicks"]) for row in one.rows] for one in fleet.results] == [[("c", 9), ("b", 6)]]
    feed(fleet, 2.7, "b", "d")
    fleet.wait_long(2.0)
    assert [(row["product"], row["clicks"]) for row in fleet.results[1].rows] == [("b", 3), ("d", 3)]
    assert fleet.results[1].contributors == 3
    said = fleet.log(key)
    assert sorted(said) == sorted((f"agent-{n}", f"discount on {p}") for n in range(3) for p in ("b", "c"))


def test_a_job_of_somebody_who_is_not_trusted_does_not_start(fleet_of: Make) -> None:
    fleet = fleet_of()
    stranger = Person(fleet_of().authority, "mallory")
    fleet.submit_code(TEN_LINES, by=stranger)
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "authority" in refused.reason


# Code that fails.


FAILING = """
    import elf

    class Failing(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"

        def on_result(self, window):
            {body}
"""


def ended(fleet: ProgramFleet, key: Id) -> tuple[str, str]:
    """Why the followed job is over, and what people are told."""
    (one,) = [notice for notice in fleet.notices(0) if isinstance(notice, Ended)]
    assert one.app_id == key
    return one.reason, one.failure


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such price')", "ValueError: no such price (job.py:8)"),
        ("self.multicast('words')", "MessageError: str is no message: decorate a frozen dataclass with @elf.message"),
        ("self.route('counts', Unknown())", "NameError: name 'Unknown' is not defined (job.py:8)"),
        ("raise SystemExit(3)", "SystemExit: 3 (job.py:8)"),
        ("self.cbt.insert({'product': object()})", "JobError: this cannot be sent to the agent: "),
    ],
)
def test_what_a_callback_raises_ends_the_job_and_no_other(fleet_of: Make, body: str, said: str) -> None:
    fleet = fleet_of()
    good = fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND", "good", bounded=False)
    key = fleet.submit_code(FAILING.format(body=body))
    fleet.agents[0].follow(key, None, fleet.now)
    fleet.catch_up()
    feed(fleet, 1.2, "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    fleet.wait(1.0)
    reason, failure = ended(fleet, key)
    assert reason == "failed"
    assert failure.startswith("its code has failed on agent-")
    assert said in failure
    log = "\n".join(text for _, text in fleet.log(key))
    assert "Traceback" in log
    assert said.partition(" (job")[0] in log
    assert [job.app_id for agent in fleet.agents for job in agent.jobs()] == [good] * 3
    assert not fleet.turns


def test_a_process_that_dies_ends_the_job(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    fleet.agents[0].follow(key, None, fleet.now)
    fleet.settle()
    fleet.kill_program(1, "was killed by signal 11 (segmentation fault)")
    fleet.wait(1.0)
    reason, failure = ended(fleet, key)
    assert (reason, failure) == (
        "failed", "its code has failed on agent-1: its process was killed by signal 11 (segmentation fault)"
    )  # fmt: skip


def test_code_that_cannot_be_loaded_ends_the_job(fleet_of: Make) -> None:
    """It loads where it is submitted, not beside the agents."""
    fleet = fleet_of()
    source = TEN_LINES.replace(
        "def on_result", "def __init__(self):\n            open('/etc/nothing')\n\n        def on_result"
    )
    key = fleet.submit_code(source)
    fleet.agents[0].follow(key, None, fleet.now)
    fleet.wait(1.0)
    assert ended(fleet, key)[0] == "failed"
    assert "FileNotFoundError" in "\n".join(text for _, text in fleet.log(key))


# Whose job it is.


def test_a_bundle_that_was_changed_after_it_was_signed_is_refused(fleet_of: Make) -> None:
    fleet = fleet_of()
    _, _, bundle = fleet.bundle(TEN_LINES)
    contents = msgspec.structs.replace(bundle.contents, source=bundle.contents.source + b"\n")
    fleet.submit_code(TEN_LINES, bundle=msgspec.structs.replace(bundle, contents=contents))
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "not the creator's signature" in refused.reason


def test_nobody_starts_a_job_under_the_id_of_a_creators(fleet_of: Make) -> None:
    fleet = fleet_of()
    _, key, bundle = fleet.bundle(TEN_LINES)
    first = bundle.contents.functions[0]
    job = Submit(key, "counts", "web", first.plan, first.text, bounded=False)
    fleet.agents[0].submit(job, fleet.now, fleet.wall_ms)
    fleet.settle()
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "creator's signature" in refused.reason


def test_two_creators_have_two_jobs_of_one_name(fleet_of: Make) -> None:
    fleet = fleet_of()
    john = Person(fleet.authority, "john")
    mine, his = fleet.submit_code(TEN_LINES), fleet.submit_code(TEN_LINES, by=john)
    assert mine != his
    agent = fleet.agents[1]
    assert (agent.app_of("counts@maria"), agent.app_of("counts@john")) == (mine, his)
    with pytest.raises(AmbiguousNameError, match="more than one job is named counts: say counts@john or counts@maria"):
        agent.app_of("counts")


def test_only_its_creator_stops_and_updates_a_job(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    fleet.notices(0)
    _, stop = stopping(Person(fleet.authority, "john"), "counts", fleet.wall_ms)  # type: ignore[arg-type]
    for seal in (None, stop):
        fleet.agents[0].stop(key, fleet.now, seal)
        fleet.settle()
        (answer,) = fleet.notices(0)
        assert isinstance(answer, StopAnswered)
        assert answer.found
        assert answer.refusal is not None
    first = fleet.bundle(TEN_LINES)[2].contents.functions[0]
    fleet.agents[0].update(Update(key, first.plan, first.text, False, 0), fleet.now, fleet.wall_ms)
    fleet.settle()
    (refused,) = fleet.notices(0)
    assert isinstance(refused, UpdateRefused)
    assert "creator's signature" in refused.reason
    _, seal = stopping(fleet.maria, "counts", fleet.wall_ms)  # type: ignore[arg-type]
    fleet.agents[0].stop(key, fleet.now, seal)
    fleet.settle()
    assert fleet.notices(0) == [StopAnswered(key, True, None)]
    assert not fleet.turns


# Jobs that ask each other.

ASKED = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Best:
        than: int

    @elf.message
    @dataclass(frozen=True)
    class Product:
        name: str

    class Asked(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"

        def __init__(self):
            self.rows = []

        def on_result(self, window):
            self.rows = window.rows

        def deliver(self, app, message):
            best = max(self.rows, key=lambda row: row["n"], default=None)
            if best is None or best["n"] < message.than:
                raise elf.JobError("has nothing that good")
            return Product(best["product"])
"""
ASKING = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Best:
        than: int

    @elf.message
    @dataclass(frozen=True)
    class Product:
        name: str

    class Asking(elf.Job):
        query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
        timer_s = 5.0

        def on_timer(self):
            if not self.is_root:
                return
            for than in (2, 2000):
                try:
                    self.log(f"best: {self.route('asked', Best(than)).name}")
                except elf.NoAnswerError as error:
                    self.log(str(error))
            (window,) = self.ask("asked")
            self.log(f"{window.rows[0]['product']} {window.is_complete}")
            try:
                self.ask("nothing")
            except elf.NoAnswerError as error:
                self.log(str(error))
"""


def test_a_job_routes_messages_to_another_and_asks_for_its_windows(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(ASKED)
    asking = fleet.submit_code(ASKING)
    fleet.catch_up()
    feed(fleet, 1.2, "a", "b", "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    fleet.wait_long(6.0)
    assert [text for _, text in fleet.log(asking)] == [
        "best: a", "asked has nothing that good", "a True",
        "there is no job nothing in this fleet: elf jobs lists those there are",
    ]  # fmt: skip


def test_a_job_that_takes_no_messages_says_so(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(TEN_LINES.replace("Counts", "Asked"))
    asking = fleet.submit_code(ASKING.replace('(window,) = self.ask("asked")', "return"))
    fleet.wait_long(6.0)
    assert {text for _, text in fleet.log(asking)} == {"asked takes no messages: its code has no deliver"}


SUBSCRIBER = """
    import elf

    class Subscriber(elf.Job):
        query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
        timer_s = 0.5
        is_subscribed = False

        def on_timer(self):
            if self.is_root and not self.is_subscribed:
                self.subscribe("counts")
                self.is_subscribed = True

        def on_result(self, window):
            self.log(f"{window.app} {len(window.rows)}")
"""


def test_a_job_gets_the_windows_of_one_it_has_subscribed_to(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(TEN_LINES)
    key = fleet.submit_code(SUBSCRIBER)
    fleet.wait_long(2.0)
    fleet.catch_up()
    feed(fleet, 4.2, "a", "b", "a")
    feed(fleet, 12.5, "b")
    fleet.work()
    fleet.wait_long(3.0)
    assert sorted(text for _, text in fleet.log(key)) == ["counts 2", "subscriber 1"]


# Code that maps.

WORDS = """
    import elf

    class Words(elf.Job):
        reads = {"product": "string"}
        query = "SELECT word, COUNT(*) AS n, SUM(length) AS letters FROM web GROUP BY word WINDOWING 1 SECOND"

        def map(self, event):
            for word in (event["product"] or "").split():
                if word != "the":
                    yield {"word": word, "length": len(word)}
"""


def test_what_map_makes_of_events_is_counted(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(WORDS)
    fleet.catch_up()
    feed(fleet, 1.2, "the red the green", "red", None, "the")
    feed(fleet, 8.5, "end")
    fleet.work()
    assert [dict(row) for row in fleet.results[0].rows] == [
        {"word": "green", "n": 3, "letters": 15}, {"word": "red", "n": 6, "letters": 18}
    ]  # fmt: skip
    assert fleet.results[0].contributors == 3


# Functions changed in flight.

ZOOMING = """
    import elf

    class Zooming(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"
        queries = {"apples": "SELECT COUNT(*) AS n FROM web WHERE product = 'a' WINDOWING 1 SECOND"}

        def on_result(self, window):
            self.log(f"{window.version}: {len(window.rows)}")
            if window.version == 1:
                self.update("apples")
"""


def test_a_master_changes_to_another_of_its_jobs_queries(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(ZOOMING)
    fleet.catch_up()
    for second in range(1, 30, 2):
        feed(fleet, second + 0.2, "a", "b", "c")
        fleet.wait(0.3)
        fleet.work()
    said = [text for _, text in fleet.log(key)]
    assert said[0] == "1: 3"
    assert said[-1] == "2: 1"
    assert said == sorted(said)
    for result in fleet.results:
        assert [row["n"] for row in result.rows] == ([3, 3, 3] if result.version == 1 else [3])


def test_code_is_updated_by_its_creator_and_stays_where_it_cannot_be_loaded(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    first = fleet.bundle(TEN_LINES)[2]
    running = fleet.agents[1].jobs()[0]
    fleet.notices(0)

    def update(source: str) -> UpdateAnswered | UpdateRefused:
        running = fleet.agents[1].jobs()[0]
        bundle = fleet.bundle(source, after=(running.counter, running.mandate))[2]
        function = bundle.contents.functions[0]
        fleet.agents[0].update(Update(key, function.plan, function.text, False, 0, bundle), fleet.now, fleet.wall_ms)
        fleet.settle()
        fleet.wait_long(2.0)
        (answer,) = [one for one in fleet.notices(0) if isinstance(one, UpdateAnswered | UpdateRefused)]
        return answer

    broken = TEN_LINES.replace("def on_result", "def __init__(self):\n            1 / 0\n\n        def on_result")
    refused = update(broken)
    assert isinstance(refused, UpdateRefused)
    assert "cannot run it: ZeroDivisionError: division by zero (job.py:8)" in refused.reason
    assert len(fleet.turns) == 3
    answered = update(TEN_LINES.replace("""{row['product']}: {row['n']}""", "second {row['n']}"))
    assert isinstance(answered, UpdateAnswered)
    assert (answered.version, answered.agents, answered.expected) == (3, 3, 3)  # 2 was withdrawn
    fleet.catch_up()
    feed(fleet, 8.2, "a")
    feed(fleet, 18.5, "b")
    fleet.work()
    assert [text for _, text in fleet.log(key)] == ["second 3"]
    assert (running.counter, first.seal.counter) == (1, 1)
    again = fleet.bundle(TEN_LINES, after=(1, running.mandate))[2]
    fleet.agents[0].update(Update(key, again.contents.functions[0].plan, "", False, 0, again), fleet.now, fleet.wall_ms)
    fleet.settle()
    (late,) = [one for one in fleet.notices(0) if isinstance(one, UpdateRefused)]
    assert "it has been updated since" in late.reason


# Limits.

FLOODING = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Noise:
        number: int

    class Flooding(elf.Job):
        query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
        timer_s = 5.0
        heard = 0

        def on_timer(self):
            for number in range(1000 if self.is_root else 0):
                self.multicast(Noise(number))
                self.log("noise")
                self.show(number)
            if not self.is_root:
                self.log(f"heard {self.heard}")

        def on_multicast(self, app, message):
            self.heard += 1
"""


def test_a_master_that_multicasts_without_end_is_held_to_its_limit(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(FLOODING)
    fleet.wait_long(11.0)
    said = [text for _, text in fleet.log(key)]
    assert {"heard 200"} <= {text for text in said if text.startswith("heard")}
    assert "multicast: more than 100 a second; some are dropped" in said
    assert len([text for text in said if text == "noise"]) <= 1000
    assert any(text.startswith("(") and text.endswith("lines more than may be said)") for text in said)
    assert [agent.jobs()[0].app_id for agent in fleet.agents] == [key] * 3


def test_a_message_that_is_too_large_is_refused_where_it_is_sent(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(
        FLOODING.replace("number: int", "number: str").replace("Noise(number)", "Noise('x' * 70000)")
    )
    fleet.agents[0].follow(key, None, fleet.now)
    fleet.wait_long(7.0)
    assert "Noise has 70,013 bytes, a message may have 65,536" in ended(fleet, key)[1]


def test_an_agent_that_does_not_trust_the_creator_is_missing_and_the_log_says_why(fleet_of: Make) -> None:
    fleet = fleet_of(6)
    master = next(iter(fleet.agents))
    other = fleet.agents[4]
    other.creators = NoCreators()
    key = fleet.submit_code(TEN_LINES)
    assert other.master(key) is None, "this one is to be a worker"
    fleet.catch_up()
    feed(fleet, 1.2, "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    fleet.wait_long(12.0)
    feed(fleet, 20.5, "b")
    fleet.work()
    last = fleet.results[-1]
    assert (last.contributors, last.expected, last.missing) == (5, 6, ["agent-4"])
    assert ("agent-4", "this agent cannot run the job: this agent trusts no creators") in fleet.log(key)
    assert master.jobs()[0].agents == 5


# Masters that change.


def test_code_goes_on_at_the_next_master(fleet_of: Make) -> None:
    fleet = fleet_of(4)
    key = fleet.submit_code(FIGURE_7)
    feed(fleet, 0.5, "a", "b", "b")
    fleet.wait_long(2.5)
    assert len(fleet.results) == 1
    number = next(n for n, agent in enumerate(fleet.agents) if agent.master(key) is not None)
    gone = fleet.agents.pop(number)
    fleet.network.remove(gone.node)
    fleet.wait_long(25.0)
    feed(fleet, 27.8, "c")
    fleet.wait_long(5.0)
    before = len(fleet.results)
    assert before > 1
    assert sum(agent.master(key) is not None for agent in fleet.agents) == 1
    assert max(result.epoch for result in fleet.results) == 2
    counted = [row["clicks"] for result in fleet.results for row in result.rows if row["product"] == "c"]
    assert counted == [3]
