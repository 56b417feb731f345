"""`conf.d` and the environment: what counts, and what a person is told about faults in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_toml import agent_toml

from agent.configuration.config import Config, ConfigError, load_config
from agent.configuration.effective import effective_values

MAIN = "copies = 1\n" + agent_toml(streams={"web": "web.log"})


def written(folder: Path, **files: str) -> Path:
    """A configuration whose further files have these names and texts."""
    (folder / "agent.toml").write_text(MAIN)
    (folder / "conf.d").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "conf.d" / f"{name}.toml").write_text(text)
    return folder / "agent.toml"


def loaded(path: Path, **environment: str) -> Config:
    return load_config(path, environment)


def faults(path: Path, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(path, environment)
    return [line.removeprefix(f"{path.parent}/") for line in caught.value.lines]


def test_later_files_replace_values_and_add_streams(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        b='copies = 3\n[archive]\nkeep_days = 5\n[[streams]]\nname = "api"\npaths = ["api.log"]\n',
        a='copies = 2\njob_memory = "1 GiB"\n[archive]\ndirectory = "rows"\nkeep_days = 2\n',
        c='[identity]\nkey = "other.key"\n',
    )
    config = loaded(path)
    assert (config.copies, config.job_memory_bytes) == (3, 1 << 30)
    assert config.archive is not None
    assert (config.archive.directory, config.archive.keep_days) == (tmp_path / "rows", 5.0)
    assert [stream.name for stream in config.streams] == ["web", "api"]
    assert config.streams[1].source.locations == (f"{tmp_path}/api.log",), "paths start at the folder of agent.toml"
    assert (config.identity.key, config.identity.ca) == (tmp_path / "other.key", tmp_path / "ca.pem")


def test_other_files_of_the_folder_do_not_count(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "conf.d" / ".10.toml").write_text("broken")
    (tmp_path / "conf.d" / "10.toml.dpkg-old").write_text("broken")
    assert loaded(path).copies == 1


def test_faults_name_the_file_and_line_they_are_in(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        a='[[streams]]\nname = "api"\npath = ["x"]\n\n[[streams]]\nname = "web"\npaths = ["y"]\n',
        b='\n\njob_memory = "lots"\n[tables.t]\n',
    )
    assert faults(path) == [
        "conf.d/a.toml:1: streams[0].paths: is missing",
        "conf.d/a.toml:3: streams[0].path: unknown key (did you mean paths?)",
        f"conf.d/a.toml:6: streams[1].name: 'web' is the name of streams[0] in {tmp_path}/agent.toml:11 already",
        "conf.d/b.toml:3: job_memory: 'lots' is no amount of memory: write it like '256 MiB' or '1.5 GiB'",
        "conf.d/b.toml:4: tables.t.file: is missing",
    ]


def test_all_broken_files_are_named_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, a="copies = \n", b="[tables\n", c="x = 1\n")
    (tmp_path / "conf.d" / "d.toml").mkdir()
    assert [line.split(": ")[0] for line in faults(path)] == ["conf.d/a.toml:1", "conf.d/b.toml:1", "conf.d/d.toml"]


def test_a_deep_table_is_a_fault_and_no_crash(tmp_path: Path) -> None:
    path = written(tmp_path, a=f"[{'.'.join('a' * 5000)}]\nb = 1\n")
    assert faults(path) == ["conf.d/a.toml: is nested too deeply"]


def test_variables_override_files(tmp_path: Path) -> None:
    path = written(tmp_path, a="copies = 3\n")
    config = loaded(
        path,
        ELF_AGENT_COPIES="0",
        ELF_AGENT_SEEDS="10.0.0.1:7700, 10.0.0.2:7700",
        ELF_AGENT_IDENTITY_KEY="/run/credentials/agent.key",
        ELF_AGENT_ARCHIVE_KEEP_DAYS="1.5",
        ELF_AGENT_RACK="",
        ELF_SOCKET="/x",
    )
    assert (config.copies, config.seeds) == (0, ("10.0.0.1:7700", "10.0.0.2:7700"))
    assert config.identity.key == Path("/run/credentials/agent.key")
    assert config.archive is not None
    assert config.archive.keep_days == 1.5
    assert config.rack is None


def test_faults_in_variables_name_the_variable(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert faults(
        path, ELF_AGENT_COPIES="many", ELF_AGENT_SEEDS="a:1,b", ELF_AGENT_COPY="1", ELF_AGENT_ZZZZZZZZZZZZ="1"
    ) == [
        "ELF_AGENT_SEEDS: seeds[1]: 'b' is not host:port",
        "ELF_AGENT_COPIES: copies: must be a whole number, not text in quotes",
        "ELF_AGENT_COPY: unknown variable (did you mean ELF_AGENT_COPIES?)",
        "ELF_AGENT_ZZZZZZZZZZZZ: unknown variable (elf config schema lists those that there are)",
    ]


def test_each_value_is_shown_with_where_it_comes_from(tmp_path: Path) -> None:
    path = written(tmp_path, a='copies = 3\n[[streams]]\nname = "api"\npaths = ["api.log"]\n')
    layers = loaded(path, ELF_AGENT_LOG_LEVEL="debug").layers
    origins = {one.key: (one.value, one.origin.removeprefix(f"{tmp_path}/")) for one in effective_values(layers)}
    assert origins["copies"] == (3, "conf.d/a.toml:1")
    assert origins["identity.ca"] == ("ca.pem", "agent.toml:8")
    assert origins["streams[0].paths"] == (["web.log"], "agent.toml:13")
    assert origins["streams[1].name"] == ("api", "conf.d/a.toml:3")
    assert origins["log_level"] == ("debug", "ELF_AGENT_LOG_LEVEL")
    assert origins["job_memory"] == ("256 MiB", "default")
    set_ones = {one.key for one in effective_values(layers, defaults=False)}
    assert "copies" in set_ones
    assert "job_memory" not in set_ones
