"""The demo's parts on their own: catalogue, journal, pages, shoppers."""

import gc
import json
import re
import signal
from collections import Counter
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from elf.demo.catalogue import FLASH_PRODUCT, PRODUCTS, STORES, USERS
from elf.demo.interruption import orderly_end, run_orderly
from elf.demo.load.shopper import FLASH_BEGIN, FLASH_END, RequestKind, Shopper
from elf.demo.shop.journal import AccessClock, Journal, Snowflakes, access_line, escape, event_line
from elf.demo.shop.pages import Site


def test_the_catalogue_has_distinct_names_and_slugs() -> None:
    assert len({product.slug for product in PRODUCTS}) == len(PRODUCTS) >= 250
    assert len({product.name for product in PRODUCTS}) == len(PRODUCTS)
    assert {product.store for product in PRODUCTS} == set(STORES)
    assert "Angry Birds Season" in {product.name for product in PRODUCTS}
    assert next(product for product in PRODUCTS if product.name == FLASH_PRODUCT).store == "video_games"
    assert len({user.id for user in USERS}) == len({user.name for user in USERS}) == len(USERS)


@given(st.text(st.characters(max_codepoint=255)))
def test_escaping_leaves_printable_ascii_and_can_be_undone(text: str) -> None:
    escaped = escape(text)
    assert re.fullmatch(r"(?:[ !#-\[\]-~]|\\x[0-9A-F]{2})*", escaped)
    undone = re.sub(r"\\x([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), escaped)
    assert undone == text


def test_a_missing_header_is_a_dash_and_an_empty_one_is_empty() -> None:
    line = access_line("192.0.2.1", "10/Oct/2000:13:55:36 -0700", "GET / HTTP/1.1", 200, 5, referer=None, user_agent="")
    assert line == '192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 5 "-" ""'


def test_the_access_clock_moves_with_the_second() -> None:
    clock = AccessClock()
    first, same, later = clock.text(1_000_000.1), clock.text(1_000_000.9), clock.text(1_000_001.0)
    assert first == same != later
    assert re.fullmatch(r"\d\d/Jan/1970:\d\d:\d\d:\d\d [+-]\d{4}", first)


@given(st.lists(st.floats(1.5e9, 2e9), min_size=2, max_size=50), st.integers(0, 1023))
def test_snowflakes_rise_whatever_the_clock_does(times: list[float], worker: int) -> None:
    snowflakes = Snowflakes(worker)
    ids = [snowflakes.take(now_s) for now_s in times]
    assert all(a < b for a, b in pairwise(ids))
    assert all(event_id >> 12 & 1023 == worker and 2**53 < event_id < 2**63 for event_id in ids)


def test_a_worker_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1023, not 1024"):
        Snowflakes(1024)


def test_an_event_is_one_line_of_json() -> None:
    user = next(user for user in USERS if not user.location.isascii())
    line = event_line(1_357_948_102.5, 299_665_941_824_950_273, PRODUCTS[0], user, clicks=2, buys=0)
    assert json.loads(line) == {
        "created_at": "2013-01-11T23:48:22.500Z",
        "id": 299_665_941_824_950_273,
        "product": "Angry Birds Season",
        "clicks_count": 2,
        "buys_count": 0,
        "store": "video_games",
        "user": {
            "id": user.id,
            "name": user.name,
            "location": user.location,
            "followers": user.followers,
            "longitude": user.longitude,
            "latitude": user.latitude,
        },
        "likes_count": 0,
    }
    assert "\n" not in line
    more = json.loads(event_line(0.0, 1, PRODUCTS[0], user, likes=1, text="SALE!\n", discount=10))
    assert {name: more[name] for name in ("likes_count", "sale", "text", "discount")} == {
        "likes_count": 1, "sale": True, "text": "SALE!\n", "discount": 10
    }  # fmt: skip


def test_a_closed_journal_takes_nothing_and_has_written_everything(tmp_path: Path) -> None:
    journal = Journal(tmp_path, pytest.fail, interval_s=60)
    assert journal.record("a", "e")
    assert journal.record("b", None)
    journal.close()
    assert not journal.record("c", "f")
    assert (tmp_path / "access.log").read_text() == "a\nb\n"
    assert (tmp_path / "events.json").read_text() == "e\n"


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    for name in ("access.log", "events.json"):
        (tmp_path / name).symlink_to("/dev/full")
    errors: list[OSError] = []
    journal = Journal(tmp_path, errors.append, interval_s=60)
    journal.record("a", "e")
    with pytest.raises(OSError, match=r"No space left on device: .*events.json"):
        journal.close()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/", 200),
        ("/cart", 200),
        ("/store/video_games", 200),
        ("/store/nothing", 404),
        ("/product/angry-birds-season?ref=home", 200),
        ("/product/angry-birds-season?clicks=0", 400),
        ("/product/angry-birds-season?clicks=²", 400),
        ("/product/", 404),
        ("/missing", 404),
        ("", 404),
    ],
)
def test_get_answers(target: str, status: int) -> None:
    answer = Site().get(target)
    assert answer.status == status
    assert (answer.product is not None) == (status == 200 and target.startswith("/product/"))


@pytest.mark.fuzz
@given(st.text(), st.binary())
def test_no_request_breaks_the_site(target: str, form: bytes) -> None:
    site = Site()
    assert site.get("/product/angry-birds-season?" + target).status in (200, 400)
    assert site.get(target).status in (200, 400, 404)
    for path in ("/cart", "/like", "/comment"):
        assert site.post(path, form).status in (303, 400, 404)


def test_a_purchase_says_what_and_how_many() -> None:
    answer = Site().post("/cart", b"product=angry-birds-season&quantity=3")
    assert (answer.status, answer.location, answer.buys, answer.clicks) == (303, "/cart", 3, 0)
    assert answer.product is not None
    assert answer.product.name == "Angry Birds Season"


def test_likes_and_comments_say_what_was_liked_and_published() -> None:
    like = Site().post("/like", b"product=angry-birds-season")
    assert (like.status, like.location, like.likes, like.buys) == (303, "/product/angry-birds-season", 1, 0)
    comment = Site().post("/comment", b"product=angry-birds-season&text=On+sale%3F")
    assert (comment.status, comment.text, comment.clicks) == (303, "On sale?", 0)
    assert Site().post("/comment", b"product=angry-birds-season").status == 400
    assert Site().post("/comment", b"product=angry-birds-season&text=" + b"a" * 281).status == 400


def test_shoppers_with_the_same_seed_ask_the_same() -> None:
    fractions = [number / 500 for number in range(500)]
    first, again, other = (
        [shopper.request(fraction).data for fraction in fractions] for shopper in (Shopper(1), Shopper(1), Shopper(2))
    )
    assert first == again != other


def test_products_follow_zipf_and_the_crowd_comes_and_goes() -> None:
    shopper = Shopper(3)

    def slugs(fraction: float) -> Counter[bytes]:
        requests = [shopper.request(fraction) for _ in range(8_000)]
        views = [request.data for request in requests if request.kind is RequestKind.VIEW]
        return Counter(data[len(b"GET /product/") : data.index(b"?")] for data in views)

    before, during, after = slugs(0.1), slugs((FLASH_BEGIN + FLASH_END) / 2), slugs(FLASH_END)
    flash = FLASH_PRODUCT.lower().replace(" ", "-").encode()
    assert during.most_common(1)[0][0] == flash
    assert 0.3 < during[flash] / during.total() < 0.5
    assert max(before[flash], after[flash]) < 30
    top = [count for _, count in before.most_common()]
    assert 0.12 < top[0] / before.total() < 0.2
    assert len(top) > 200


@pytest.mark.parametrize("at_ctrl_c", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_ends_it_also_where_ctrl_c_is_ignored(at_ctrl_c: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, at_ctrl_c)
    try:
        with pytest.raises(SystemExit) as ended, orderly_end():
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) == at_ctrl_c
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interruption_while_a_task_is_started_leaves_nothing_behind() -> None:
    """A coroutine that was made and never begun is told of on stderr, long after (here it would fail the test)."""
    waited: list[bool] = []

    async def idle() -> None:
        await trio.sleep_forever()

    def interrupted() -> Coroutine[object, object, None]:
        coroutine = idle()
        signal.raise_signal(signal.SIGINT)
        return coroutine

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupted)
            waited.append(True)
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as raised:
        run_orderly(work)
    assert raised.group_contains(KeyboardInterrupt)
    gc.collect()
    assert waited == [True]
