"""What any of the solvers found: a prefix, and how far from the best it can be at most."""

from typing import NamedTuple, final

from bayesdice_ppl.scores.forms import ROUNDING, Form


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
    evaluated : int
        How many prefixes were tried, or nodes of a tree searched.
    method : str
        "exhaustive", "sorting", "assignment", "branch and bound", "pairwise ordering" or "local
        search".
    runner_up : tuple of int or None
        The best other prefix that was seen: another set where order does not matter.
    runner_up_loss : float or None
        Its loss.
    runner_up_proven : bool
        Whether no other prefix lies between the two; if there is no runner-up, whether there is no
        other prefix at all.
    """

    prefix: tuple[int, ...]
    loss: float
    bound: float | None
    evaluated: int
    method: str
    runner_up: tuple[int, ...] | None = None
    runner_up_loss: float | None = None
    runner_up_proven: bool = False


def optimum(
    form: Form,
    prefix: tuple[int, ...],
    method: str,
    others: list[tuple[int, ...]],
    *,
    proven: bool = False,
) -> Found:
    """Report the best prefix of a solver, and the best of some others as the runner-up.

    Parameters
    ----------
    form : Form
        The expected loss.
    prefix : tuple of int
        The best prefix. If a solver was cut short, one of the others may be better: they change
        places.
    method : str
        How it was found.
    others : list of tuple of int
        What the runner-up is chosen from: of equals the lexicographically first.
    proven : bool
        Whether the best of them is the best of all other prefixes.

    Returns
    -------
    Found
        Its bound is the loss.
    """
    loss = form.loss(prefix)
    if not others:
        return Found(prefix, loss, loss, 1, method, runner_up_proven=proven)
    losses = {other: form.loss(other) for other in others}
    rounding = ROUNDING * max(1.0, abs(loss))
    least = min(losses.values())
    second = min(other for other in others if losses[other] <= least + rounding)
    if least < loss - rounding:
        prefix, second = second, prefix
    loss, other_loss = form.loss(prefix), form.loss(second)
    return Found(prefix, loss, loss, 1, method, second, other_loss, proven)
