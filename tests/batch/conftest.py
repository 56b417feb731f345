"""Spark for the tests: one local session in this process, and one real cluster for commands to run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_cluster import SparkCluster, spark_cluster

from elf.batch.session import session
from elf.batch.session.java import find_java
from elf.batch.session.session import spark_errors, start_session
from elf.commands.batch import opened
from elf.errors import ElfError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DEFAULTS = f"""\
spark.driver.extraJavaOptions {QUICK_TO_START}
spark.executor.extraJavaOptions {QUICK_TO_START}
spark.sql.shuffle.partitions 2
"""
"""Settings of Spark for tests, which start many small processes on few cores."""


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Java that Spark will run on; tests that need it skip where there is none."""
    try:
        found = find_java()
    except ElfError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("spark-conf")
    (directory / "spark-defaults.conf").write_text(DEFAULTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(directory))
        patch.setenv("SPARK_DAEMON_JAVA_OPTS", QUICK_TO_START)
        yield found


@pytest.fixture(scope="session")
def spark(java: Path) -> Iterator[SparkSession]:  # noqa: ARG001 - skips without one
    session = start_session("local[2]", "tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(java: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:  # noqa: ARG001
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def elsewhere(spark: SparkSession) -> Callable[[Path], str]:
    """Makes paths URIs of a file system that only Hadoop knows; behind it are this machine's files."""
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.default.linkFallback", "file:///")
    return lambda path: f"viewfs:///{path.relative_to('/')}"


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in the session of all tests: one start is enough."""

    @contextmanager
    def same_session(_master: str) -> Iterator[SparkSession]:
        with spark_errors():
            yield spark

    monkeypatch.setattr(opened, "spark_session", same_session)
    monkeypatch.setattr(session, "spark_session", same_session)
