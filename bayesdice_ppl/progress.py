"""What takes long says what it does: one line for each stage that is open, after two seconds.

Code opens a `stage` and goes through its `parts`. Nothing is shown where the standard error is no
terminal and no notebook, nor while `silent` is open. What is done within two seconds is not shown
either.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

DELAY = 2.0
"""Seconds after which the outermost stage is shown."""


@dataclass
class _Stage:
    """A stage that is open: its words, and its parts, of which the number may not be known."""

    words: str
    total: int | None = None
    done: int = 0


@final
class _Display:
    """The stages that are open, and the lines that show them."""

    def __init__(self) -> None:
        self._stages: list[_Stage] = []
        self._tasks: list[TaskID] = []
        self._bars: Progress | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        self.silent = 0
        self.console: Console | None = None

    def open(self, words: str) -> None:
        """Open a stage inside those that are open."""
        with self._lock:
            self._stages.append(_Stage(words))
            if self._bars is not None:
                self._add(self._stages[-1])
            elif len(self._stages) == 1 and not self.silent:
                self._timer = threading.Timer(DELAY, self._show)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Close the innermost stage."""
        with self._lock:
            self._stages.pop()
            if self._bars is not None and self._tasks:
                self._bars.remove_task(self._tasks.pop())
            if not self._stages:
                if self._timer is not None:
                    self._timer.cancel()
                if self._bars is not None:
                    self._bars.stop()
                self._timer = self._bars = None

    def count(self, done: int, total: int | None) -> None:
        """Say how many parts of the innermost stage are done."""
        with self._lock:
            if not self._stages:
                return
            self._stages[-1].total, self._stages[-1].done = total, done
            if self._bars is not None:
                self._bars.update(self._tasks[-1], total=total, completed=done)

    def _add(self, one: _Stage) -> None:
        assert self._bars is not None
        self._tasks.append(self._bars.add_task(one.words, total=one.total, completed=one.done))

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
        if not (console.is_terminal or console.is_jupyter):
            return
        with self._lock:
            if not self._stages or self.silent:
                return
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._tasks = []
            for one in self._stages:
                self._add(one)
            self._bars.start()


_DISPLAY = _Display()


@contextmanager
def stage(words: str) -> Iterator[None]:
    """What is done inside, in a few words such as ``"values of 200 candidates"``."""
    _DISPLAY.open(words)
    try:
        yield
    finally:
        _DISPLAY.close()


def parts[T](items: Iterable[T]) -> Iterator[T]:
    """Go through the parts of the innermost stage, and count them.

    Parameters
    ----------
    items
        The parts; how many there are is shown if they have a length.
    """
    total = len(items) if isinstance(items, Sized) else None
    for done, item in enumerate(items):
        _DISPLAY.count(done, total)
        yield item


@contextmanager
def silent(*, really: bool = True) -> Iterator[None]:
    """Show nothing inside, if `really`."""
    _DISPLAY.silent += really
    try:
        yield
    finally:
        _DISPLAY.silent -= really
