"""Spam campaign (paper §4.1): finds the accounts that publish "sale" most, then zooms in by changing its own query.

1. The accounts that publish most sales. Some publish suspiciously many:
2. The places that sales come from. Most of them come from one place:
3. Accounts there with few followers. They are the campaign: the web servers are shown its accounts, `{"spam": [...]}`
   in `shown/spam-campaign.json`. When they are quiet, the job begins again.

The queries that a master may change to are written down here, and signed with the code. Each window is computed by one
of them, so its rows tell how far the search has come: a new master goes on from the next window.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import elf

SUSPICIOUS = 3
"""Number of sales within a window that makes an account suspicious."""
FOLLOWERS_FEW = 10
ENOUGH = 30
"""Number of sales, of one window or several, that show whether they come from everywhere; fewer show only that most
come from one place. Of 19 sales published while a campaign published most, 10 came from elsewhere by chance.
"""
PATIENCE = 5
"""Number of windows of the old query to pass over after an update before it is requested again."""
PLACES = (
    "Ohio", "Georgia", "Oregon", "Texas", "New York", "California", "Ontario", "São Paulo", "Zürich", "Oslo", "Lagos",
    "Nairobi", "Mumbai", "Osaka", "Seoul", "Sydney", "Kraków", "Porto", "Lyon", "Reykjavík", "Erewhon",
)  # fmt: skip


@elf.message
@dataclass(frozen=True)
class Campaign:
    """Accounts that belong together."""

    accounts: list[str]


class SpamCampaign(elf.Job):
    """The accounts of a campaign, found in three steps."""

    query = """
        SELECT user.name AS account, COUNT(*) AS posts FROM events WHERE sale
        GROUP BY user.name ORDER BY posts DESC LIMIT 10 WINDOWING 3 SECONDS
    """
    queries = {
        "places": """
            SELECT user.location AS place, COUNT(*) AS posts FROM events WHERE sale
            GROUP BY user.location ORDER BY posts DESC LIMIT 10 WINDOWING 3 SECONDS
        """
    } | {
        place: f"""
            SELECT user.name AS account, user.followers AS followers, COUNT(*) AS posts FROM events
            WHERE sale AND user.location == '{place}' AND user.followers < {FOLLOWERS_FEW}
            GROUP BY user.name, user.followers ORDER BY posts DESC LIMIT 10 WINDOWING 3 SECONDS
        """
        for place in PLACES
    }

    def __init__(self) -> None:
        self.query_now = ""  # the query chosen last, as far as is known here
        self.changed = 0  # the version of the window in which it was chosen
        self.waited = 0
        self.places: Counter[str] = Counter()  # sales by place, in windows of version `places_of`
        self.places_of = 0

    def on_result(self, window: elf.Window) -> None:
        if window.version == self.changed and self.waited < PATIENCE:
            self.waited += 1
            return
        rows = window.rows
        if rows and "place" in rows[0]:
            self.look_at_places(rows, window)
        elif rows and "followers" in rows[0]:
            self.log(f"a campaign: {', '.join(row['account'] for row in rows)}")
            self.multicast(Campaign([row["account"] for row in rows]))
        elif rows:
            self.look_at_accounts(rows, window)
        elif window.version > 1 and self.query_now != "query":
            self.zoom("query", "it is quiet here", window)

    def look_at_accounts(self, rows: list[dict[str, Any]], window: elf.Window) -> None:
        self.query_now = "query"
        suspects = [row["account"] for row in rows if row["posts"] >= SUSPICIOUS]
        if suspects:
            self.zoom("places", f"suspects: {', '.join(suspects)}", window)

    def look_at_places(self, rows: list[dict[str, Any]], window: elf.Window) -> None:
        if window.version != self.places_of:
            self.places, self.places_of = Counter(), window.version
        self.places.update({row["place"]: row["posts"] for row in rows})
        [(place, posts)], sales = self.places.most_common(1), self.places.total()
        if place in self.queries and 2 * posts > sales:
            self.zoom(place, f"{posts} sales come from {place}", window)
        elif sales >= ENOUGH:
            self.zoom("query", "sales come from everywhere", window)

    def zoom(self, query: str, reason: str, window: elf.Window) -> None:
        self.log(f"{reason}; on to {query}")
        self.query_now, self.changed, self.waited = query, window.version, 0
        self.update(query)

    def on_multicast(self, app: str, message: Campaign) -> None:
        self.show({"spam": message.accounts})
