"""The tree's kernel under AddressSanitizer and UBSan, over random blocks; see fuzz_tree.c."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from seeds import seeds

SOURCE = Path(__file__).with_name("fuzz_tree.c")
LINES_OF_ROUND = 100
ROUNDS = int(os.environ.get("ELF_FUZZ_LINES", "50000")) // LINES_OF_ROUND
"""Number of tables that each seed fills; `make fuzz` takes many more."""
OPTIONS = ("-O1", "-g", "-std=gnu11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_no_block_misleads_the_kernel(tmp_path: Path, seed: int) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    program = tmp_path / "fuzz"
    built = subprocess.run([compiler, *OPTIONS, "-o", program, SOURCE], check=False, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"no sanitizers here: {built.stderr.splitlines()[:1]}")
    ran = subprocess.run([program, str(seed), str(ROUNDS)], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, f"seed {seed}: {ran.stderr}"
    assert int(ran.stdout.split()[0]) == ROUNDS
