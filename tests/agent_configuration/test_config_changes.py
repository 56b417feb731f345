"""What a reload says it changes, and what it leaves for a restart."""

from __future__ import annotations

from pathlib import Path

from agent_toml import agent_toml

from agent.configuration.changes import config_changes
from agent.configuration.config import Config, load_config

MAIN = (
    'sealed_disk = "1 GiB"\n'
    + agent_toml(streams={"web": "web.log", "api": "api.log"})
    + '[tables.products]\nfile = "products.csv"\n'
)


def loaded(folder: Path, text: str) -> Config:
    (folder / "agent.toml").write_text(text)
    return load_config(folder / "agent.toml", {})


def test_changes_are_told_by_key_and_by_name(tmp_path: Path) -> None:
    before = loaded(tmp_path, MAIN)
    text = MAIN.replace('[[streams]]\nname = "web"\npaths = ["web.log"]\n', "").replace("api.log", "api/*.log")
    text += '[tables.users]\nfile = "users.csv"\n[[streams]]\nname = "events"\npaths = ["e.log"]\n[archive]\n'
    new = loaded(tmp_path, f'copies = 3\nlisten = "127.0.0.1:1"\n{text.replace("listen", "# ", 1)}')
    changes = config_changes(before, before, new)
    assert changes.applied[0] == "copies: 3 (was 2)"
    assert 'archive.directory: "archive" (was not set)' in changes.applied
    assert changes.applied[-4:] == (
        "stream web: removed", "stream events: added", "stream api: changed", "table users: added",
    )  # fmt: skip
    assert changes.waiting == ('listen: "127.0.0.1:1" (was "127.0.0.1:7705")',)
    assert (changes.config.copies, changes.config.listen) == (3, "127.0.0.1:7705")
    assert [stream.name for stream in changes.config.streams] == ["api", "events"]


def test_what_waits_for_a_restart_is_told_until_it_comes(tmp_path: Path) -> None:
    started = loaded(tmp_path, MAIN)
    first = config_changes(started, started, loaded(tmp_path, f'rack = "b"\n{MAIN}'))
    again = config_changes(started, first.config, loaded(tmp_path, f'rack = "b"\ncopies = 0\n{MAIN}'))
    assert (again.applied, again.waiting) == (("copies: 0 (was 2)",), ('rack: "b" (was not set)',))
    back = config_changes(started, again.config, loaded(tmp_path, MAIN))
    assert (back.applied, back.waiting) == (("copies: 2 (was 0)",), ())


def test_the_order_of_streams_is_no_change(tmp_path: Path) -> None:
    before = loaded(tmp_path, MAIN)
    web = '[[streams]]\nname = "web"\npaths = ["web.log"]\n'
    changes = config_changes(before, before, loaded(tmp_path, MAIN.replace(web, "") + web))
    assert (changes.applied, changes.waiting) == ((), ())


def test_disk_for_sealed_panes_may_grow_but_not_appear(tmp_path: Path) -> None:
    before = loaded(tmp_path, MAIN)
    more = config_changes(before, before, loaded(tmp_path, MAIN.replace("1 GiB", "2 GiB")))
    assert (more.applied, more.config.sealed_disk_bytes) == (('sealed_disk: "2 GiB" (was "1 GiB")',), 2 << 30)
    none = config_changes(before, before, loaded(tmp_path, MAIN.replace("1 GiB", "none")))
    assert (none.applied, none.config.sealed_disk_bytes) == ((), 1 << 30)
    assert none.waiting == ('sealed_disk: "none" (was "1 GiB")',)
