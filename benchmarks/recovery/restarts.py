"""A whole fleet that is killed and started again: how soon its job publishes again."""

import time

from benchmarks.agents import running_agents
from benchmarks.report import Comparison

from .lines import at_most
from .watching import WindowWatch, is_complete, watched_job

TARGET_S = 15.0


def run(agents: int, trials: int) -> list[Comparison]:
    """Kills all agents at once, starts them again, and waits for windows of after that."""
    again_s, whole_s = [], []
    with running_agents(agents) as (fleet, folder, _):
        observer = fleet.names[0]
        with watched_job(fleet, folder, "", observer=observer) as (app, watch):
            watch.wait(is_complete(agents), "no complete window")
            for _ in range(trials):
                for name in fleet.names:
                    fleet.kill(name)
                began_s = time.time()
                for name in fleet.names:
                    fleet.launch(name)
                fleet.wait_ready(fleet.names)
                after = WindowWatch(fleet.socket(observer), app)
                found = after.wait(lambda found, since=began_s: found.window_end_s > since, "the job is not back")
                again_s.append(found.at_s - began_s)
                found = after.wait(is_complete(agents, began_s), "no complete window")
                whole_s.append(found.at_s - began_s)
                after.close()
    place = f"{agents} agents, {trials} times"
    return [
        at_most(f"whole fleet killed and started, first window: {place}", max(again_s), "s", TARGET_S),
        at_most(f"whole fleet killed and started, first complete window: {place}", max(whole_s), "s"),
    ]
