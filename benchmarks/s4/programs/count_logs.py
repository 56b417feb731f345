"""A running count of log lines by product, with a row for each line."""

import elf

GUARANTEED = True
Line = elf.source("SELECT product FROM web", guaranteed=GUARANTEED)
Counted = elf.aggregate(Line, key="product", value="COUNT(*) AS n")


class CountLogs(elf.Job):
    elements = [Counted]
    query = "SELECT COUNT(*) AS updates, SUM(n) AS total FROM Counted WINDOWING 1 SECOND"
