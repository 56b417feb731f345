"""Interest and approval at a peer-to-peer lending company (Enorm, section 2): five operators, windows of up to a day.

Web servers log applications for loans to the stream `loans`: `user`, `area`, `date`, `approval` (true or false),
`amount`, `return` (what the borrower pays back), `lendingTime` (days) and `income` (a year's).

1. `rates`: the interest rate of each application, in hundredths of a per cent a year.
2. `area_interest`: the rate next to the income of those who get a loan, by area.
3. `area_approval`: the share of applications that are approved, by area.
4. `interest`: the rate of all loans.
5. The job's own query: the share of all applications that are approved.

The first is a map, so it is written into the next two: an application is read and counted by area beside its web
server (the paper's figure 2). These two are counted in panes of ten minutes, of which all windows are made (figure 3),
and the last two are made of their windows of ten minutes in turn (figure 4).
"""

import elf

RATED = """(
    SELECT user, area, date, approval, income,
           CAST(ROUND(10000 * ("return" - amount) / amount * 365 / lendingTime) AS BIGINT) AS rate
    FROM loans WHERE amount > 0 AND lendingTime > 0
) AS rated"""
SIZES = "WINDOWING 10 MINUTES, 30 MINUTES, 1 HOUR, 6 HOURS, 24 HOURS"
WAITING = "ON STRAGGLER WAIT RECOVER FOR 1 MINUTE"
"""Figures are rather late than without somebody, be it that an agent is slow or is started again."""
SHORTEST_MS, TOLD_MS = 600_000, 3_600_000
"""Length of the windows that others are made of, and of the shortest that the job's log tells of."""
OF_THE_SHORTEST = f"EPOCH_MS(part.window_end) - EPOCH_MS(part.window_start) = {SHORTEST_MS}"


class Lending(elf.Job):
    """Interest and approval, by area and overall."""

    stages = {
        "rates": f"SELECT date, user, area, approval, rate FROM {RATED} WINDOWING 10 MINUTES {WAITING}",
        "area_interest": f"""
            SELECT area, AVG(rate) AS rate, AVG(income) AS income, COUNT(*) AS loans, SUM(rate) AS rates
            FROM {RATED} WHERE approval GROUP BY area {SIZES} {WAITING}
        """,
        "area_approval": f"""
            SELECT area, AVG(IF(approval, 1, 0)) AS share, COUNT(*) AS applications, SUM(IF(approval, 1, 0)) AS approved
            FROM {RATED} GROUP BY area {SIZES} {WAITING}
        """,
        "interest": f"""
            SELECT SUM(rates) / SUM(loans) AS rate, SUM(loans) AS loans
            FROM app('area_interest') AS part WHERE {OF_THE_SHORTEST}
            HAVING SUM(loans) > 0 {SIZES}
        """,
    }
    query = f"""
        SELECT SUM(approved) / SUM(applications) AS share, SUM(applications) AS applications
        FROM app('area_approval') AS part WHERE {OF_THE_SHORTEST}
        HAVING SUM(applications) > 0 {SIZES}
    """

    def on_result(self, window: elf.Window) -> None:
        length_ms = window.end_ms - window.start_ms
        if window.stage not in ("interest", "") or length_ms < TOLD_MS:
            return
        for row in window.rows:
            hours = f"{length_ms // TOLD_MS} h to {window.window_end}"
            if window.stage == "interest":
                self.log(f"{hours}: {row['loans']:,} loans at {row['rate'] / 100:.2f} % on average")
            else:
                self.log(f"{hours}: {100 * row['share']:.1f} of 100 approved, of {row['applications']:,} applications")
