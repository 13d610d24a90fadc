"""What takes long says what it does: one line for each stage that is open, after two seconds.

Code opens a `stage`, and counts its parts where it has some. Nothing is shown where the standard
error is no terminal and no notebook with ipywidgets, in a process that another one started, or
while `silent` is open. What is done within two seconds is not shown either.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, final

from bayesdice_ppl.plain import plain_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

DELAY = 2.0
"""Seconds after which the outermost stage is shown."""


@final
@dataclass(eq=False)
class Stage:
    """A stage that is open.

    Attributes
    ----------
    words
        What is done, in a few words.
    total, done
        Number of its parts, None if it is not known, and how many of them are done.
    task
        Its line, while it is shown.
    """

    words: str
    total: int | None = None
    done: int = 0
    task: TaskID | None = None

    def tell(self, done: int, total: int | None = None, words: str | None = None) -> None:
        """Say how far it is; a total or words that are left out stay."""
        self.done = done
        self.total = self.total if total is None else total
        self.words = self.words if words is None else words
        _DISPLAY.update(self)

    def advance(self) -> None:
        """One part more is done."""
        self.tell(self.done + 1)


@final
class _Display:
    """The stages that are open, and the lines that show them."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.bars: Progress | None = None
        self.silent = 0
        self.console: Console | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()

    def open(self, one: Stage) -> None:
        """Open a stage inside those that are open."""
        with self._lock:
            self.stages.append(one)
            if self.silent:
                return
            if self.bars is not None:
                self._add(one)
            elif len(self.stages) == 1:
                self._timer = threading.Timer(DELAY, self._show)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Close the innermost stage."""
        with self._lock:
            one = self.stages.pop()
            if self.bars is not None and one.task is not None:
                self.bars.remove_task(one.task)
            if self.stages:
                return
            if self._timer is not None:
                self._timer.cancel()
            if self.bars is not None:
                self.bars.stop()
            self._timer = self.bars = None

    def update(self, one: Stage) -> None:
        """Show what a stage says of itself, if it is shown."""
        with self._lock:
            if self.bars is not None and one.task is not None:
                self.bars.update(
                    one.task, description=one.words, total=one.total, completed=one.done
                )

    def _add(self, one: Stage) -> None:
        assert self.bars is not None
        one.task = self.bars.add_task(one.words, total=one.total, completed=one.done)

    def _show(self) -> None:
        """Start to show, called by the timer."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True) if self.console is None else self.console
        # Processes that another one started share its terminal.
        started = multiprocessing.parent_process() is not None
        if started or not (console.is_terminal or console.is_jupyter):
            return
        # Rich draws in notebooks by ipywidgets, and without it warns in every cell.
        if console.is_jupyter and find_spec("ipywidgets") is None:
            return
        with self._lock:
            if not self.stages or self.silent:
                return
            self.bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            for one in self.stages:
                self._add(one)
            self.bars.start()


_DISPLAY = _Display()


@contextmanager
def stage(words: str, total: int | None = None) -> Iterator[Stage]:
    """Show what is done inside.

    Parameters
    ----------
    words
        A few words, such as ``"values of the candidates"``.
    total
        Number of its parts, if it has some.
    """
    one = Stage(plain_text(words), total)
    _DISPLAY.open(one)
    try:
        yield one
    finally:
        _DISPLAY.close()


def parts[T](words: str, items: Collection[T]) -> Iterator[T]:
    """Go through some items as the parts of a stage of their own."""
    with stage(words, len(items)) as shown:
        for item in items:
            yield item
            shown.advance()


@contextmanager
def silent(*, really: bool = True) -> Iterator[None]:
    """Show nothing inside, if `really`."""
    _DISPLAY.silent += really
    try:
        yield
    finally:
        _DISPLAY.silent -= really
