"""A real standalone cluster of Spark on loopback: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from elf.batch.session.java import find_java, write_java_home
from elf.batch.session.session import LOOPBACK

WORKERS = 2
WORKER_MEMORY = "1g"
ENDING_TIMEOUT_S = 20.0


class SparkProcess:
    """A process of Spark that is up once its log has said so; the log goes on in a file."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path, ready: str) -> None:
        place = find_spec("pyspark")
        assert place is not None
        assert place.origin is not None
        spark_class = Path(place.origin).parent / "bin" / "spark-class"
        self._log = log
        self._process = subprocess.Popen(
            [str(spark_class), *arguments], env=environment, text=True, errors="replace",
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.pid = self._process.pid
        assert self._process.stderr is not None
        with log.open("w") as file:
            for line in self._process.stderr:
                file.write(line)
                if ready in line:
                    self.said = line
                    break
            else:
                raise AssertionError(f"{arguments[0]} has ended: {log.read_text()[-2000:]}")
        self._reader = threading.Thread(target=self._keep_log)
        self._reader.start()

    def _keep_log(self) -> None:
        assert self._process.stderr is not None
        with self._log.open("a") as file:
            shutil.copyfileobj(self._process.stderr, file)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(ENDING_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join()
        if self._process.stderr:
            self._process.stderr.close()


class SparkCluster:
    """Its `master` is what `--master` takes; its workers can be killed and others started."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        write_java_home(directory / "java", find_java())
        self._environment = {
            **os.environ, "JAVA_HOME": str(directory / "java"), "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable,
        }  # fmt: skip
        self._number = 0
        master = self._start("master", ["--port", "0"], "Starting Spark master at ")
        self.master = master.said.rpartition(" at ")[2].strip()
        self.workers = [self.start_worker() for _ in range(WORKERS)]

    def start_worker(self) -> SparkProcess:
        self._number += 1
        name = f"worker-{self._number}"
        room = ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(self._directory / name)]
        return self._start(name, [*room, self.master], "Successfully registered with master")

    def _start(self, name: str, arguments: list[str], ready: str) -> SparkProcess:
        kind = "master.Master" if name == "master" else "worker.Worker"
        command = [f"org.apache.spark.deploy.{kind}", "--host", LOOPBACK, "--webui-port", "0", *arguments]
        process = SparkProcess(command, self._environment, self._directory / f"{name}.log", ready)
        self._stack.callback(process.end)
        return process


@contextmanager
def spark_cluster(directory: Path) -> Iterator[SparkCluster]:
    """The cluster, ended with the block, by its processes' ids."""
    with ExitStack() as stack:
        yield SparkCluster(directory, stack)
