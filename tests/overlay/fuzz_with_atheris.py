"""Coverage-guided fuzzing: every target for a while, each in a process of its own, which libFuzzer ends.

Argument: how many seconds for each target. What broke a target is written to the current folder, as `crash-...`; to try
it again, give the target's name and the file instead.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def fuzz(name: str, arguments: list[str]) -> None:
    """Fuzz one target, or run it on files. Does not return."""
    import atheris

    with atheris.instrument_imports(include=["overlay"]):
        from fuzz_targets import TARGETS
    target, _ = TARGETS[name]
    atheris.Setup([sys.argv[0], *arguments], target)
    atheris.Fuzz()


def fuzz_all(seconds: int) -> int:
    """Fuzz every target; return how many broke."""
    from fuzz_targets import TARGETS

    broken = 0
    for name, (_, seeds) in TARGETS.items():
        with tempfile.TemporaryDirectory() as corpus:
            for number, seed in enumerate(seeds):
                (Path(corpus) / str(number)).write_bytes(seed)
            command = [sys.executable, __file__, name, corpus, f"-max_total_time={seconds}", "-max_len=4096"]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = ended.stderr.splitlines()
        summary = next((line for line in reversed(lines) if line.startswith("Done ")), "broke")
        print(f"{name:10} {summary}", flush=True)
        if ended.returncode:
            broken += 1
            print("\n".join(lines[-40:]), flush=True)
    return broken


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        sys.exit(fuzz_all(int(sys.argv[1])))
    fuzz(sys.argv[1], sys.argv[2:])
