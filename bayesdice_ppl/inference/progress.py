"""A progress bar of a training, on a terminal only."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from bayesdice_ppl.inference.training import Reading


@final
class TrainingProgress:
    """Loss, J, E[zeta] and steps a second, as a training goes on.

    Parameters
    ----------
    steps, done
        Most steps, and those that were done before.
    show
        Whether to show it, where standard error is a terminal.
    """

    def __init__(self, steps: int, done: int, *, show: bool):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(stderr=True)
        self.visible = show and console.is_terminal
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not self.visible,
        )
        self._task = self._bar.add_task("", total=steps, completed=done)
        self._done, self._time = done, time.perf_counter()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, done: int, elbo: Float[Any, "N steps"], reading: Reading) -> None:
        """Show how far it is: means over candidates and restarts.

        Parameters
        ----------
        done
            Steps that are done.
        elbo
            The objective of the last steps.
        reading
            What was read off after them.
        """
        if not self.visible:
            return
        now = time.perf_counter()
        rate = (done - self._done) / max(now - self._time, 1e-9)
        self._done, self._time = done, now
        text = (
            f"loss {-np.mean(elbo):.4g}  J {np.mean(reading.criterion):.4g}  "
            f"E[zeta] {np.mean(reading.mass):.3f}  {rate:.0f} steps/s"
        )
        self._bar.update(self._task, completed=done, description=text)
