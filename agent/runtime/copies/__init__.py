"""Copies of sealed runs: two agents near each other's owner hold them until the master has published their panes.

Sealed runs of local jobs come in, and messages of other agents; messages go out, to holders and to masters that lack
the part of an agent. It may import `master`, `job`, `reduce`, `fleet`, `messages` and `model`.

Theory of operation. An agent sends each run that it has sealed, once it may leave, to the `HOLDERS` of its neighbours
(of other racks, where agents know theirs), beside and after what goes up the trees: no window waits for a copy. Nobody
decodes it there. A master whose complete panes lack an agent asks the fleet for that agent's runs, and takes them as
*detached* ones (see `agent.runtime.reduce.combiner`): one contributor each, so they are a subset of what has come by
the trees, or disjoint from it, and nobody counts twice. Whoever is in a window by its copy is a contributor as any
other. What is published is freed: by the owner when it learns of it, by holders from what masters announce.
"""
