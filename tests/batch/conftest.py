"""Spark for the tests: one local session in this process, and one real cluster for commands to run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_cluster import SparkCluster, spark_cluster

from elf.batch.java import find_java
from elf.batch.session import start_session
from elf.errors import ElfError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> Path:
    """The Java that Spark will run on; tests that need it skip where there is none."""
    try:
        return find_java()
    except ElfError as error:
        pytest.skip(str(error))


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
