"""Shows the demo: as a picture that is redrawn on a terminal, else as lines."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from elf.demo.story.board import ShownWindow, happening_line, window_line


class Picturesque(Protocol):
    """An object that renders a picture."""

    def render(self) -> RenderableType: ...


class Screen(Protocol):
    """Takes news, and draws a few times a second. May raise BrokenPipeError."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def happened(self, at_s: float, text: str) -> None: ...

    def window(self, window: ShownWindow) -> None: ...

    def draw(self) -> None: ...


class Picture:
    """The board, redrawn in place by the caller's thread, so that errors reach the caller."""

    def __init__(self, console: Console, board: Picturesque) -> None:
        self._board = board
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def happened(self, at_s: float, text: str) -> None:
        """The board has it."""

    def window(self, window: ShownWindow) -> None:
        """The board has it."""

    def draw(self) -> None:
        self._live.update(self._board.render(), refresh=True)


class Lines:
    """A line for every window and everything that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def happened(self, at_s: float, text: str) -> None:
        self._print(happening_line(at_s, text))

    def window(self, window: ShownWindow) -> None:
        self._print(f"       {window_line(window)}")

    def draw(self) -> None:
        """Nothing to do: lines are not redrawn."""

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)
        self._console.file.flush()


def screen_for(console: Console, board: Picturesque) -> Screen:
    return Picture(console, board) if console.is_terminal else Lines(console)
