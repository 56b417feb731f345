"""Accesses an archive's files by URI: directly on this machine, elsewhere through Hadoop's file systems."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from agent.archive.format.log import write_hidden_first
from agent.durable_files import sync_directory
from elf.errors import ElfError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FileError(ElfError):
    """A file or directory of an archive cannot be used; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One entry of a directory."""

    name: str
    bytes: int
    is_directory: bool
    modified_ms: int


class Directory(Protocol):
    """A directory and the files below it, by relative paths with `/`. All methods raise FileError."""

    uri: str

    def list(self, path: str = "") -> list[DirectoryEntry]:
        """Entries sorted by name; empty where there is no directory."""

    def read(self, path: str) -> bytes: ...

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of a file, up to `count` of each."""

    def write(self, path: str, data: bytes) -> None:
        """Writes a file under an unused name; it appears whole or not at all."""

    def move(self, path: str, to: str) -> None:
        """Renames a file to an unused name, durably."""

    def delete(self, path: str) -> None:
        """Deletes a file, or a directory with its content; a missing one is no error."""

    def make(self, path: str) -> None:
        """Makes a directory, which may exist already."""

    def uri_of(self, path: str) -> str:
        """The URI under which Spark opens a path."""

    def child(self, name: str) -> Directory: ...


def open_directory(uri: str, spark: SparkSession | None) -> Directory:
    """The directory at a URI or at a path of this machine; it need not exist.

    `spark` is needed for URIs elsewhere. Raises FileError for a URI that cannot be used.
    """
    path = local_path(uri)
    if path is not None:
        return LocalDirectory(path)
    if spark is None:
        raise FileError(f"{uri}: is not on this machine")
    return HadoopDirectory(uri.rstrip("/"), spark)


def local_path(uri: str) -> Path | None:
    """The path that a URI or path names on this machine; None for one elsewhere."""
    if "://" not in uri and not uri.startswith("file:"):
        return Path(uri).absolute()
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


class LocalDirectory(Directory):
    """A directory of this machine, mounted file systems included."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uri = str(path)

    def list(self, path: str = "") -> list[DirectoryEntry]:
        with _os_errors(self.path / path):
            try:
                entries = sorted((self.path / path).iterdir())
            except FileNotFoundError:
                return []
        return [found for entry in entries if (found := _found(entry)) is not None]

    def read(self, path: str) -> bytes:
        with _os_errors(self.path / path):
            return (self.path / path).read_bytes()

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        with _os_errors(self.path / path), (self.path / path).open("rb") as file:
            first = file.read(count)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return first, file.read(count)

    def write(self, path: str, data: bytes) -> None:
        target = self.path / path
        with _os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_hidden_first(target, data)

    def move(self, path: str, to: str) -> None:
        source, target = self.path / path, self.path / to
        with _os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as file:
                os.fsync(file.fileno())
            source.replace(target)
            sync_directory(target.parent)

    def delete(self, path: str) -> None:
        target = self.path / path
        with _os_errors(target):
            if target.is_dir() and not target.is_symlink():
                for entry in list(target.iterdir()):
                    self.delete(str(entry.relative_to(self.path)))
                target.rmdir()
            else:
                target.unlink(missing_ok=True)

    def make(self, path: str) -> None:
        with _os_errors(self.path / path):
            (self.path / path).mkdir(mode=0o750, parents=True, exist_ok=True)

    def uri_of(self, path: str) -> str:
        return (self.path / path).as_uri()

    def child(self, name: str) -> LocalDirectory:
        return LocalDirectory(self.path / name)


class HadoopDirectory(Directory):
    """A directory of a file system that Hadoop has a driver for: HDFS, object stores."""

    def __init__(self, uri: str, spark: SparkSession) -> None:
        self.uri = uri
        self._spark = spark
        context: Any = spark.sparkContext
        self._java = context._jvm
        with _java_errors(uri):
            self._files = self._java.org.apache.hadoop.fs.FileSystem.get(
                self._java.java.net.URI.create(uri), context._jsc.hadoopConfiguration()
            )

    def list(self, path: str = "") -> list[DirectoryEntry]:
        with _java_errors(self.uri_of(path)):
            if not self._files.exists(self._path(path)):
                return []
            return sorted(
                (
                    DirectoryEntry(one.getPath().getName(), one.getLen(), one.isDirectory(), one.getModificationTime())
                    for one in self._files.listStatus(self._path(path))
                ),
                key=lambda found: found.name,
            )

    def read(self, path: str) -> bytes:
        with _java_errors(self.uri_of(path)):
            return self._bytes(path, 0, self._files.getFileStatus(self._path(path)).getLen())

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        with _java_errors(self.uri_of(path)):
            size = self._files.getFileStatus(self._path(path)).getLen()
            count = min(size, count)
            return self._bytes(path, 0, count), self._bytes(path, size - count, count)

    def write(self, path: str, data: bytes) -> None:
        temporary = f"{_parent(path)}/.{uuid.uuid4().hex}.new"
        with _java_errors(self.uri_of(path)):
            stream = self._files.create(self._path(temporary), False)
            try:
                stream.write(data)
                stream.hflush()
            finally:
                stream.close()
        self.move(temporary, path)

    def move(self, path: str, to: str) -> None:
        with _java_errors(self.uri_of(to)):
            self._files.mkdirs(self._path(_parent(to)))
            if self._files.exists(self._path(to)) or not self._files.rename(self._path(path), self._path(to)):
                raise FileError(f"{self.uri_of(to)}: is already there, or cannot be written")

    def delete(self, path: str) -> None:
        with _java_errors(self.uri_of(path)):
            self._files.delete(self._path(path), True)

    def make(self, path: str) -> None:
        with _java_errors(self.uri_of(path)):
            self._files.mkdirs(self._path(path))

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{path}" if path else self.uri

    def child(self, name: str) -> HadoopDirectory:
        return HadoopDirectory(f"{self.uri}/{name}", self._spark)

    def _path(self, path: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self.uri_of(path))

    def _bytes(self, path: str, offset: int, count: int) -> bytes:
        stream = self._files.open(self._path(path))
        try:
            stream.seek(offset)
            return bytes(stream.readNBytes(count))
        finally:
            stream.close()


def _found(entry: Path) -> DirectoryEntry | None:
    try:
        status = entry.stat()
    except FileNotFoundError:  # deleted since
        return None
    return DirectoryEntry(entry.name, status.st_size, entry.is_dir(), status.st_mtime_ns // 1_000_000)


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: {(error.strerror or str(error)).lower()}") from error


@contextmanager
def _java_errors(uri: str) -> Iterator[None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise FileError(f"{uri}: cannot be used: {str(error).strip().splitlines()[0]}") from error
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        said = str(cause.getMessage() or cause.getClass().getSimpleName()).strip().splitlines()[0]
        raise FileError(f"{uri}: cannot be used: {said}") from error


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
