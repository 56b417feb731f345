"""Starts Spark for the verbs of `elf batch`: in this process unless a cluster is named, and without its log output."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from elf.batch.session.java import find_java, write_java_home
from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
LOOPBACK = "127.0.0.1"
MASTER_PORT = 7077
CONNECT_TIMEOUT_S = 5.0
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A value that does not fit is NULL, as in ELF QL; sums check for overflow themselves.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A batch has ten thousand lines, which may be long.
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    # The log of an archive names its files, so Spark need not list directories.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # A missing file system is reported within seconds, not after a quarter of an hour.
    "spark.hadoop.ipc.client.connect.timeout": "5000",
    "spark.hadoop.ipc.client.connect.max.retries": "2",
    "spark.hadoop.ipc.client.connect.max.retries.on.timeouts": "2",
    "spark.hadoop.ipc.client.rpc-timeout.ms": "20000",
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
    "spark.sql.catalogImplementation": "in-memory",
}


_TOLD_AS_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark that write to stderr the errors it also raises."""


_ON_WORKERS = "; workers need elf-stream too: install it there, or name a Python that has it in PYSPARK_PYTHON"


@contextmanager
def spark_session(master: str = LOCAL, name: str = "elf batch") -> Iterator[SparkSession]:
    """A session on a master, stopped at the end of the block; errors of Spark become ElfError.

    Raises ElfError for a master that does not answer, and where pyspark or a Java for it is missing.
    """
    # Without a handler, py4j's log of a broken connection goes to stderr.
    logging.getLogger().addHandler(logging.NullHandler())
    session = start_session(master, name)
    try:
        with spark_errors():
            yield session
    finally:
        session.stop()


def start_session(master: str = LOCAL, name: str = "elf batch") -> SparkSession:
    """A session on a master; the caller stops it."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ElfError(f"{error.name} is missing, which this verb needs: pip install 'elf-stream[spark]'") from None
    _check_master(master)
    os.environ["JAVA_HOME"] = str(_java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    if _is_on_this_machine(master):
        builder = builder.config("spark.driver.host", LOOPBACK).config("spark.driver.bindAddress", LOOPBACK)
    if not _has_own_logging():
        configuration = (Path(__file__).parent / "log4j2.properties").as_uri()
        builder = builder.config("spark.driver.defaultJavaOptions", f"-Dlog4j2.configurationFile={configuration}")
    for logger in _TOLD_AS_ERRORS:
        logging.getLogger(logger).disabled = True
    with spark_errors(), _own_interrupts():
        return builder.getOrCreate()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restores the handler of Ctrl-C that pyspark replaces: pyspark would interrupt its own connection to Java."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turns errors of pyspark into ElfError of one line with the innermost cause."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        raise ElfError(f"Spark: {_cause(str(error.java_exception))}") from error
    except (PySparkException, Py4JError) as error:
        cause = _cause(str(error))
        hint = _ON_WORKERS if cause.startswith("ModuleNotFoundError") else ""
        raise ElfError(f"Spark: {cause}{hint}") from error


def _cause(text: str) -> str:
    """The line with the innermost error of a Python worker or a Java exception, without the stack."""
    lines = [line.strip() for line in text.splitlines()]
    stack = ("at ", "...", "File ", "Traceback", "^", "~")
    told = [line for line in lines if line and not line.startswith(stack)]
    return next((line for line in reversed(told) if "Error" in line or "Exception" in line), (told or [text])[0])


def masters_of(master: str) -> Sequence[tuple[str, int]]:
    """Hosts and ports of a standalone cluster's masters; empty for any other kind of master.

    Raises UsageError for a malformed address.
    """
    if not master.startswith("spark://"):
        return ()
    found = []
    for address in master.removeprefix("spark://").split(","):
        host, colon, port = address.rpartition(":")
        host, port = (host, port) if colon else (address, str(MASTER_PORT))
        if not host or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"--master {master}: {address!r} is no address; write it like spark://host:{MASTER_PORT}")
        found.append((host, int(port)))
    return found


def _check_master(master: str) -> None:
    """Raises an error for a master that does not answer: Spark itself would try for minutes."""
    kinds = ("local", "spark://", "yarn", "k8s://")
    if not master.startswith(kinds):
        raise UsageError(f"--master {master}: is none of local[*], spark://HOST:PORT, yarn and k8s://HOST:PORT")
    faults = []
    for host, port in masters_of(master):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            faults.append(f"{host}:{port}: {(error.strerror or str(error)).lower()}")
    if faults:
        raise ElfError(f"--master {master}: no master answers ({'; '.join(faults)}); is the cluster up?")


def _is_on_this_machine(master: str) -> bool:
    hosts = [host.strip("[]") for host, _ in masters_of(master)]
    return master.startswith("local") or (bool(hosts) and all(h in (LOOPBACK, "localhost", "::1") for h in hosts))


@cache
def _java_home() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="elf-java-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    write_java_home(directory / "home", find_java())
    return directory / "home"


def _has_own_logging() -> bool:
    directory = os.environ.get("SPARK_CONF_DIR")
    return directory is not None and (Path(directory) / "log4j2.properties").exists()
