"""What any of the solvers found: a prefix, and how far from the best it can be at most."""

from typing import NamedTuple, final


@final
class Found(NamedTuple):
    """The best prefix that a solver found, and what it knows of all others.

    Attributes
    ----------
    prefix : tuple of int
        Policies of the first places, best first: as many as the score's depth, or fewer where a
        budget affords no more.
    loss : float
        Its loss, averaged (or another risk) over draws, and over tie-breaks.
    bound : float or None
        No prefix that is allowed has a lower loss than this; None where nothing is known.
    runner_up : tuple of int or None
        The next best prefix: another set where order does not matter. None if there is no other.
    runner_up_loss : float or None
        Its loss.
    runner_up_proven : bool
        Whether no other prefix lies between the two, or it is only the best other that was seen.
    evaluated : int
        How many prefixes were tried, or nodes of a tree searched.
    method : str
        "exhaustive", "sorting", "assignment", "branch and bound", "pairwise ordering" or "local
        search".
    """

    prefix: tuple[int, ...]
    loss: float
    bound: float | None
    runner_up: tuple[int, ...] | None
    runner_up_loss: float | None
    runner_up_proven: bool
    evaluated: int
    method: str
