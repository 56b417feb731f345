"""Each token admits one agent, once, in its time; the register holds no secret."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from authority_world import AuthorityWorld, utc_now

from agent.enrolment.token import read_token
from agent.enrolment.token_register import REMEMBERED, TokenRefusedError, TokenRegister
from overlay import AuthorityError

KEY = b"public key"


@pytest.fixture
def world(tmp_path: Path) -> AuthorityWorld:
    return AuthorityWorld(tmp_path)


def refusal(world: AuthorityWorld, secret: bytes, name: str = "web-5", key: bytes = KEY) -> str:
    with pytest.raises(TokenRefusedError) as caught:
        TokenRegister(world.directory).use(secret, name, key, utc_now())
    return str(caught.value)


def test_a_token_is_used_up(world: AuthorityWorld) -> None:
    token = read_token(world.token())
    register = TokenRegister(world.directory)
    register.use(token.secret, "web-5", KEY, utc_now())
    register.use(token.secret, "web-5", KEY, utc_now())  # the answer was lost: it is the same agent with the same key
    assert refusal(world, token.secret, key=b"another").startswith("this token was used already, by web-5, 2")
    assert refusal(world, token.secret, name="web-6").startswith("this token was used already, by web-5")


def test_a_token_is_for_its_time_and_its_agent(world: AuthorityWorld) -> None:
    late = read_token(world.token(minutes=1, ago=timedelta(minutes=2)))
    assert refusal(world, late.secret).startswith("this token expired at 2")
    bound = read_token(world.token(name="web-9"))
    assert refusal(world, bound.secret) == "this token is for web-9, not for web-5"
    TokenRegister(world.directory).use(bound.secret, "web-9", KEY, utc_now())


def test_a_strangers_token_is_not_known(world: AuthorityWorld) -> None:
    assert "does not know this token" in refusal(world, bytes(16))


def test_the_register_has_no_secrets_and_is_for_its_owner(world: AuthorityWorld) -> None:
    token = read_token(world.token())
    file = world.directory.path / "tokens.json"
    assert token.secret.hex() not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_old_tokens_are_forgotten(world: AuthorityWorld) -> None:
    old = read_token(world.token(minutes=1, ago=timedelta(days=40)))
    world.token()
    assert "does not know this token" in refusal(world, old.secret)


def test_a_damaged_register_is_said_to_be_one(world: AuthorityWorld) -> None:
    (world.directory.path / "tokens.json").write_text("{broken")
    with pytest.raises(AuthorityError, match=r"tokens.json: cannot be read"):
        world.token()


def test_so_many_tokens_are_registered(world: AuthorityWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.enrolment.token_register.TOKENS_MAX", 2)
    world.token(ago=REMEMBERED + timedelta(days=1))
    tokens = [world.token(), world.token()]
    with pytest.raises(AuthorityError, match=r"tokens\.json: has 2 tokens: wait until some are over"):
        world.token()
    assert len(set(tokens)) == 2
