"""Merges the layers of a configuration: `agent.toml`, the files in `conf.d` beside it, and the environment.

Theory of operation. Files of `conf.d` that end in `.toml` follow `agent.toml` in the order of their names, and the
environment comes last. Tables are merged key by key. Lists of tables (`[[streams]]`) are added to those before. Every
other value replaces the one before. Each key remembers where it comes from, so that faults name file and line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.configuration.faults import Fault, spelled
from agent.configuration.toml_lines import KeyPath, key_lines, paths_of

FOLDER = "conf.d"
SUFFIX = ".toml"
FILES_MAX = 256
CONFIG_BYTES_MAX = 1 << 20
_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)")


class ConfigError(Exception):
    """A configuration that cannot be used; `lines` are its faults, one line each."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class KeyOrigin:
    """The place of a key: a file with its line, or a variable of the environment. `layer` counts from `agent.toml`."""

    source: str
    line: int | None
    key: KeyPath
    layer: int

    @property
    def at(self) -> str:
        """`agent.toml:7`, or the variable's name."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(slots=True)
class Layers:
    """The merged document, and the origin of each of its keys."""

    main: str
    document: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, KeyOrigin] = field(default_factory=dict)
    _count: int = 0

    def add(self, source: str, document: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> None:
        """Puts one more layer above those before."""
        found = {path: KeyOrigin(source, lines.get(path), path, self._count) for path in paths_of(document)}
        self._count += 1
        self._merge(self.document, document, (), (), found)

    def set(self, variable: str, path: KeyPath, value: Any) -> None:
        """Puts one value of the environment above everything."""
        table = self.document
        for part in path[:-1]:
            inner = table.get(str(part))
            if not isinstance(inner, dict):
                table[str(part)] = inner = {}
            table = inner
        layer: dict[str, Any] = {str(path[-1]): value}
        found = {
            (*path[:-1], *one): KeyOrigin(variable, None, (*path[:-1], *one), self._count) for one in paths_of(layer)
        }
        self._merge(table, layer, path[:-1], path[:-1], found)

    def _merge(
        self,
        into: dict[str, Any],
        layer: Mapping[str, Any],
        at: KeyPath,
        source: KeyPath,
        found: dict[KeyPath, KeyOrigin],
    ) -> None:
        for key, value in layer.items():
            known = into.get(key)
            to, origin = (*at, key), (*source, key)
            if isinstance(value, dict) and isinstance(known, dict):
                self._merge(known, value, to, origin, found)
            elif _are_tables(value) and known is not None and _are_tables(known):
                for number, one in enumerate(value):
                    self._take(one, (*to, len(known)), (*origin, number), found)
                    known.append(one)
            else:
                for path in paths_of(known, to):
                    self.origins.pop(path, None)
                into[key] = value
                self._take(value, to, origin, found)

    def _take(self, value: object, at: KeyPath, source: KeyPath, found: Mapping[KeyPath, KeyOrigin]) -> None:
        """Notes where a value comes from, and all that is in it."""
        for path in (source, *paths_of(value, source)):
            self.origins[(*at, *path[len(source) :])] = found[path]

    # Where things are.

    def origin(self, key: KeyPath) -> KeyOrigin | None:
        """The origin of a key, or of its table if the key is missing."""
        return next((self.origins[one] for one in (key, key[:-1]) if one in self.origins), None)

    def place(self, key: KeyPath) -> str:
        """The position of a key, with which faults begin: `agent.toml:12: identity.key`."""
        origin = self.origin(key)
        if origin is None:
            return f"{self.main}: {spelled(key)}"
        rest = key[-1:] if key not in self.origins else ()
        return f"{origin.at}: {spelled((*origin.key, *rest))}"

    def told(self, key: KeyPath, beside: KeyPath) -> str:
        """The name of a key in a sentence about another one, with its file if that is not the other's."""
        origin, other = self.origin(key), self.origin(beside)
        if origin is None:
            return spelled(key)
        where = "" if other is not None and other.layer == origin.layer else f" in {origin.at}"
        return f"{spelled(origin.key)}{where}"

    def error(self, faults: Iterable[Fault]) -> ConfigError:
        """The error of these faults, in the order of layers and lines."""

        def order(fault: Fault) -> tuple[int, int]:
            origin = self.origin(fault.key)
            return (0, 0) if origin is None else (origin.layer, origin.line or 0)

        return ConfigError(f"{self.place(fault.key)}: {fault.message}" for fault in sorted(faults, key=order))


def read_layers(path: Path) -> Layers:
    """Reads `agent.toml` and its `conf.d`. Raises ConfigError with the faults of all files that are no TOML."""
    layers = Layers(str(path))
    faults: list[str] = []
    for file in (path, *_more_files(path.parent / FOLDER)):
        try:
            text = _text(file)
            document = _parsed(file, text)
            layers.add(str(file), document, key_lines(text, document))
        except ConfigError as error:
            faults += error.lines
        except RecursionError:
            faults.append(f"{file}: is nested too deeply")
    if faults:
        raise ConfigError(faults)
    return layers


def _more_files(folder: Path) -> list[Path]:
    """The files of `conf.d` in the order of their names; hidden ones are left out, as editors leave such behind."""
    try:
        names = [one.name for one in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError([f"{folder}: {(error.strerror or str(error)).lower()}"]) from None
    chosen = sorted(name for name in names if name.endswith(SUFFIX) and not name.startswith("."))
    if len(chosen) > FILES_MAX:
        raise ConfigError([f"{folder}: has {len(chosen):,} files: at most {FILES_MAX} are read"])
    return [folder / name for name in chosen]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError([f"{path}: {reason}"]) from None
    if len(content) > CONFIG_BYTES_MAX:
        raise ConfigError([f"{path}: is larger than {CONFIG_BYTES_MAX:,} bytes: that is no configuration"])
    try:
        return content.decode("utf-8-sig")  # some editors put a byte order mark before the text
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{path}:{line}: is not UTF-8 text"]) from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_fault(path, text, str(error))]) from None


def _syntax_fault(path: Path, text: str, message: str) -> str:
    match = _AT.fullmatch(message)
    if match is None:
        return f"{path}: {message}"
    what, line, column = match.groups()
    if line is None:
        return f"{path}:{text.count(chr(10)) + 1}: {what.lower()}, at the end of the file"
    return f"{path}:{line}: {what[0].lower()}{what[1:]}, at column {column}"


def _are_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
