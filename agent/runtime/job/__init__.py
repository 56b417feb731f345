"""Local jobs: announcements, versions, code and snapshots come in, with the runs of `ingest`; enrolments and
snapshots go out by way of `reduce`, complete runs to a `RootSink`. It may import `reduce`, `ingest`, `keyed`,
`fleet`, `function`, `messages` and `model`, and knows no master.
"""
