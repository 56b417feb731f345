"""DuckDB: one SELECT over the JSON files with their column types given, its result kept as a table."""

import duckdb

from benchmarks.contender import Answer, measure

QUERY = """
CREATE OR REPLACE TEMP TABLE result AS
SELECT time_bucket(INTERVAL 30 SECONDS, created_at), product, SUM(clicks_count) AS clicks
FROM read_json(?, format = 'newline_delimited',
               columns = {created_at: 'TIMESTAMP', product: 'VARCHAR', clicks_count: 'BIGINT'})
GROUP BY ALL
"""


def main() -> None:
    connection = duckdb.connect()
    connection.execute("SET threads = 2")

    def clicks_per_window(paths: list[str]) -> None:
        connection.execute(QUERY, [paths])

    def summarise(_: None) -> Answer:
        return Answer.of([int(clicks) for (clicks,) in connection.sql("SELECT clicks FROM result").fetchall()])

    measure(clicks_per_window, summarise)


if __name__ == "__main__":
    main()
