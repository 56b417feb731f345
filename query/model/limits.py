"""Upper bounds on queries and plans."""

QUERY_BYTES_MAX = 64 * 1024
# With app('') around it, and its quotes doubled, the name fits the bound on names of streams.
APP_NAME_MAX = 248
DEPTH_MAX = 100
# A plan must get through to every agent: no list in it over 4,096 long, and no more than 65,536 values in all.
NODES_MAX = 12_000
OPERANDS_MAX = 4_000
AGGREGATES_MAX = 4_000
PATH_PARTS_MAX = 100
COLUMNS_MAX = 1_000
SELECT_MAX = 1_000
KEYS_MAX = 64
ROWS_MAX = 1_000_000
GROUPS_DEFAULT = 1_000_000
GROUPS_MAX = 100_000_000
TREES_MAX = 64
# Upper bounds on another job's latest result for a JOIN with it.
TABLE_ROWS_MAX = 100_000
TABLE_BYTES_MAX = 8 << 20
WINDOW_DAYS_MAX = 36_500
# Upper bounds on a join of two streams: on its WITHIN, and on the columns it reads of both.
WITHIN_MS_MAX = 86_400_000
JOINED_COLUMNS_MAX = 128
# Upper bounds on KEYED BY: on its keys, on the columns of the events that travel, and on their workers.
KEYED_KEYS_MAX = 16
KEYED_COLUMNS_MAX = 128
WORKERS_MAX = 1_024
SUBQUERIES_MAX = 8
BRANCHES_OF_UNION_MAX = 16
# Upper bound on the text of a selection of streams, as jobs carry it.
STREAMS_CHARACTERS_MAX = 255
DAY_MS = 86_400_000
# Bounds on a latency constraint: on its time, and on the percentage of results that keep it.
LATENCY_MS_MAX = DAY_MS
PERCENT_MIN = 50
PERCENT_MAX = 99.9
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)
