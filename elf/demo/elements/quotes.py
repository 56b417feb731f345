"""Quotations as readers of a site share them: well-known lines, some far more often than others."""

import json
import random

SAYINGS = (
    "To be, or not to be, that is the question",
    "All the world's a stage, and all the men and women merely players",
    "The course of true love never did run smooth",
    "Some are born great, some achieve greatness, and some have greatness thrust upon them",
    "We are such stuff as dreams are made on, and our little life is rounded with a sleep",
    "There is nothing either good or bad, but thinking makes it so",
    "Brevity is the soul of wit",
    "It was the best of times, it was the worst of times",
    "It is a far, far better thing that I do, than I have ever done",
    "It is a truth universally acknowledged, that a single man in possession of a fortune must want a wife",
    "Call me Ishmael",
    "I think, therefore I am",
    "The unexamined life is not worth living",
    "I know that I know nothing",
    "No man ever steps in the same river twice, for it is not the same river and he is not the same man",
    "The only thing we have to fear is fear itself",
    "Four score and seven years ago our fathers brought forth on this continent a new nation",
    "Government of the people, by the people, for the people, shall not perish from the earth",
    "We hold these truths to be self-evident, that all men are created equal",
    "Give me liberty, or give me death",
    "If I have seen further it is by standing on the shoulders of giants",
    "Knowledge is power",
    "Nothing in life is to be feared, it is only to be understood",
    "Genius is one per cent inspiration and ninety-nine per cent perspiration",
    "The first principle is that you must not fool yourself, and you are the easiest person to fool",
    "A journey of a thousand miles begins with a single step",
    "The reports of my death are greatly exaggerated",
    "I can resist everything except temptation",
    "We are all in the gutter, but some of us are looking at the stars",
    "The truth is rarely pure and never simple",
    "Happy families are all alike; every unhappy family is unhappy in its own way",
    "Beauty is truth, truth beauty, that is all ye know on earth, and all ye need to know",
    "Hope is the thing with feathers that perches in the soul",
    "I took the one less traveled by, and that has made all the difference",
    "Tell all the truth but tell it slant",
    "That which does not kill us makes us stronger",
    "Imagination is more important than knowledge",
    "God does not play dice with the universe",
    "The pen is mightier than the sword",
    "All that is gold does not glitter, and all that glitters is not gold",
)
_WEIGHTS = [1 / (rank + 3) for rank in range(len(SAYINGS))]


def quote_line(dice: random.Random, time_ms: int) -> bytes:
    """A line of a server's log: somebody has shared a quotation."""
    (text,) = dice.choices(SAYINGS, _WEIGHTS)
    return json.dumps({"time": time_ms, "user": f"reader-{dice.randrange(500)}", "text": text}).encode() + b"\n"
