"""Runs two programs, one idle and one in a loop, prints their process ids, and waits to be killed."""

from __future__ import annotations

import trio
from programs_run import running


async def main() -> None:
    async with running() as programs:
        for key in (1, 2):
            programs.start(key)
            print(await programs.said(key, "pid"), flush=True)
        programs.call(2, "loop")
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
