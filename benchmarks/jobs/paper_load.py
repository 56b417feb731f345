"""The paper's application (section 4.1) on simulated agents: each has 50 events a second of its own to read."""

import random
from datetime import UTC, datetime

from agent import Feed
from agent.parsing import Format, Parsed, Parser, SourceColumn, parser
from agent.sources import Block, Origin
from benchmarks.overlay.lines import quantile, size
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison

from .lines import at_least, at_most
from .simulated_agents import GRACE_S, STREAM, SimulatedAgents, without_collector

RATE = 50
USERS = 10_000
SALES = 5
"""One event of so many has the label that is looked for."""
WINDOW_S = 10
PAUSE_S = 0.5
"""So often agents find something new in their logs."""
SAMPLE = 100_000
PARETO_SHAPE = 1.2
"""Of how often a user writes."""
FORM = Format("json", "created_at")
QUERY = (
    f"SELECT user, COUNT(*) AS posts FROM {STREAM} WHERE label = 'sales' "
    f"GROUP BY user ORDER BY posts DESC LIMIT 10 WINDOWING {WINDOW_S} SECONDS"
)
"""Who writes most about sales."""
CASE = f"simulated, {RATE} events/s on each agent, top 10 users of {WINDOW_S} s"


class Posts:
    """What is written on all servers; everything follows from the seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._tails = [self._tail() for _ in range(SAMPLE)]
        self._parsers: dict[tuple[SourceColumn, ...], Parser] = {}

    def read(self, feed: Feed, wall_ms: int) -> Parsed:
        """What has been written beside one agent since it was last looked for, parsed for a feed."""
        columns = tuple(feed.columns)
        if columns not in self._parsers:
            self._parsers[columns] = parser(FORM, columns)
        count = round(RATE * PAUSE_S)
        begin = self._random.randrange(SAMPLE - count)
        instant = datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
        head = f'{{"created_at":"{instant}",'.encode()
        data = head + head.join(self._tails[begin : begin + count])
        return self._parsers[columns].parse(Block(data, Origin("posts", 0), 0), wall_ms)

    def _tail(self) -> bytes:
        """An event without its time."""
        number = self._random.randrange(1 << 40)
        label = "other" if number % SALES else "sales"
        user = int(self._random.paretovariate(PARETO_SHAPE)) % USERS
        return (
            f'"id":{number},"label":"{label}","user":"@curry{user}","followers_count":{user % 977},'
            f'"text":"40 % off, only today: https://shop.example/{number}"}}\n'
        ).encode()


@without_collector()
def run(agents: int, seconds: float) -> list[Comparison]:
    """Parsing, sealing, combining and publishing are charged to the virtual clock by their CPU time."""
    fleet, posts = SimulatedAgents(1, agents), Posts(1)
    fleet.run_job(QUERY, "campaigns")
    progress(f"{agents:,} agents have joined and run the job")
    before, began_ms = dict(fleet.spent_s), fleet.wall_ms
    fleet.results.clear()
    for step in range(round((seconds + WINDOW_S) / PAUSE_S)):
        fleet.insert(lambda _number, feed: posts.read(feed, fleet.wall_ms))
        fleet.run(PAUSE_S)
        if step % round(WINDOW_S / PAUSE_S) == 0:
            progress(f"{step * PAUSE_S:.0f} s simulated, {len(fleet.results)} windows are out")
    ended_ms = fleet.wall_ms
    fleet.run(GRACE_S + 1.0)
    cores = [100 * (spent_s - before[name]) / (seconds + WINDOW_S) for name, spent_s in fleet.spent_s.items()]
    return _lines(fleet, agents, began_ms, ended_ms, cores)


def _lines(fleet: SimulatedAgents, agents: int, began_ms: int, ended_ms: int, cores: list[float]) -> list[Comparison]:
    """Of windows that lie in that time as a whole. `cores`: each agent's use of a core, in percent."""
    window_ms = 1000 * WINDOW_S
    wanted = range((began_ms // window_ms + 2) * window_ms, ended_ms + 1, window_ms)
    late_ms, whole = [], 0
    offset_ms = fleet.wall_ms - 1000 * fleet.now
    for at, result in fleet.results:
        assert result.window_end is not None
        end_ms = round(1000 * datetime.fromisoformat(result.window_end).timestamp())
        if end_ms in wanted:
            late_ms.append(offset_ms + 1000 * at - end_ms - 1000 * GRACE_S)
            whole += (result.contributors, result.expected, result.late) == (agents, agents, 0)
    if not wanted:
        raise BenchmarkError("no whole window was waited for")
    place = size(agents)
    return [
        at_least(f"{CASE}, windows with all agents and no late event: {place}", 100 * whole / len(wanted), "%", 100.0),
        at_most(f"{CASE}, result after the window's end and grace, p50: {place}", quantile(late_ms, 0.5), "ms"),
        at_most(f"{CASE}, result after the window's end and grace, slowest: {place}", max(late_ms, default=0), "ms"),
        at_most(f"{CASE}, CPU of an agent, mean: {place}", sum(cores) / len(cores), "% of a core"),
        at_most(f"{CASE}, CPU of an agent, most: {place}", max(cores), "% of a core"),
    ]
