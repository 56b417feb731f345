"""The ten words used most in quotations, as they come in (S4, figure 1).

Quotations are split beside the web servers that log them. Each word is counted by an element of its own, somewhere in
the fleet. Four elements keep the ten largest counts among the words given to them, and one element merges their lists.
"""

import random
from collections import Counter

import elf

Quote = elf.source("SELECT text FROM quotes")  # ELF QL, before any Python


@elf.event
class Word:
    word: str
    n: int


@elf.event
class Updated:
    sort: int
    word: str
    n: int


class Split(elf.PE):  # keyless
    keys = {Quote: None}

    def process_event(self, quote):
        for word, n in Counter(quote.text.lower().split()).items():
            self.emit(Word(word, n))


class Count(elf.PE):  # one per word
    keys = {Word: "word"}
    n: int = 0
    sort: int = 0

    def process_event(self, event):
        self.n += event.n
        self.sort = self.sort or random.randint(1, 4)
        self.emit(Updated(self.sort, event.word, self.n))


Sort = elf.top(Updated, key="sort", of="word", by="n", k=10, every_s=1)
Merge = elf.top(Sort, key=1234, of="word", by="n", k=10, every_s=1)


class TopWords(elf.Job):
    elements = [Split, Count, Sort, Merge]
    query = "SELECT word, MAX(n) AS n FROM Merge GROUP BY word ORDER BY n DESC LIMIT 10 WINDOWING 1 SECOND"
