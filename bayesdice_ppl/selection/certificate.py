"""Evidence for a ranking: how its optimality was shown, and how close the next best comes.

"Optimal" alone says little. Two rankings can be all but equal under the belief, or one can win on
average and lose in half of the draws; so the runner-up, its distance and how often it would have
been the better choice are part of the answer.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float


@final
class Certificate(NamedTuple):
    """What is known about how good a ranking is.

    Attributes
    ----------
    status : str
        "optimal": no other ranking has a lower mean loss over these draws.
    method : str
        "exhaustive": every ranking that can make a difference was tried.
    evaluated : int
        How many were: ordered prefixes, or sets where the order does not matter.
    gap : float
        How much lower the mean loss of some other ranking may be, at most: 0 when optimal.
    runner_up : tuple of str or None
        The next best order of all N names; None if no other ranking can have another loss.
    runner_up_loss : float or None
        Its mean loss.
    runner_up_better : float or None
        Share of draws in which the runner-up has a strictly lower loss.
    margin : float or None
        Mean loss of the runner-up minus that of the ranking, paired draw by draw.
    margin_standard_error : float or None
        Monte Carlo error of the margin. A margin under twice that could turn with other draws.
    statement : str
        All this in words.
    """

    status: str
    method: str
    evaluated: int
    gap: float
    runner_up: tuple[str, ...] | None
    runner_up_loss: float | None
    runner_up_better: float | None
    margin: float | None
    margin_standard_error: float | None
    statement: str


def standard_error(losses: Float[np.ndarray, "chain draw"]) -> float:
    """Estimate the Monte Carlo error of a mean over draws.

    Parameters
    ----------
    losses : Float[ndarray, "chain draw"]
        One number per draw, at least two in all.

    Returns
    -------
    float
        The sample sd over the square root of the number of draws, which are independent when
        they come from one fitted posterior. Several chains are Markov chains, whose draws are
        not: then ArviZ's mcse, if that is larger.
    """
    independent = float(losses.std(ddof=1) / np.sqrt(losses.size))
    # ArviZ needs four draws a chain, and a constant has no autocorrelation.
    if losses.shape[0] == 1 or losses.shape[1] < 4 or independent == 0.0:
        return independent
    from arviz_stats.base import array_stats

    correlated = float(array_stats.mcse(losses, chain_axis=0, draw_axis=1))
    return max(independent, correlated) if np.isfinite(correlated) else independent


def certify(
    names: tuple[str, ...],
    losses: Float[np.ndarray, "chain draw"],
    runner_up: list[int] | None,
    runner_up_losses: Float[np.ndarray, "chain draw"] | None,
    *,
    evaluated: int,
    head: int,
    ordered: bool,
) -> Certificate:
    """Put together the certificate of an exhaustive search.

    Parameters
    ----------
    names : tuple of str
        The N candidates.
    losses : Float[ndarray, "chain draw"]
        Losses of the ranking found.
    runner_up : list of int or None
        The next best order of all N, if there is one.
    runner_up_losses : Float[ndarray, "chain draw"] or None
        Its losses in the same draws.
    evaluated : int
        How many rankings or sets were tried.
    head : int
        How many leading places were varied.
    ordered : bool
        Whether their order mattered.

    Returns
    -------
    Certificate
        With status "optimal" and gap 0.
    """
    first = f"{head} of the {len(names)} places" if head > 1 else "place"
    tried = f"All {evaluated:,} {'orders of' if ordered else 'choices for'} the first {first}"
    if runner_up is None or runner_up_losses is None:
        statement = (
            "Every order has the same loss in every draw: this score cannot tell them apart here."
        )
        return Certificate(
            "optimal", "exhaustive", evaluated, 0.0, None, None, None, None, None, statement
        )
    difference = runner_up_losses - losses
    # Losses that differ by rounding alone are equal.
    rounding = 1e-12 * max(float(np.abs(losses).max()), float(np.abs(runner_up_losses).max()))
    difference = np.where(np.abs(difference) <= rounding, 0.0, difference)
    better = float((difference < 0.0).mean())
    margin, error = float(difference.mean()), standard_error(difference)
    listed = tuple(names[i] for i in runner_up)
    next_best = ", ".join(listed[:head])
    statement = f"{tried} were tried over {losses.size:,} draws; none has a lower expected loss. "
    if difference.any():
        statement += (
            f"The next best ({next_best}) loses {margin:.3g} more on average (Monte Carlo error "
            f"{error:.2g}) and would have been strictly better in {better:.0%} of the draws."
        )
        if margin <= 2 * error:
            statement += " The two are a tie as far as these draws can tell."
    else:
        statement += f"The next best ({next_best}) has the same loss in every draw: a tie."
    return Certificate(
        status="optimal",
        method="exhaustive",
        evaluated=evaluated,
        gap=0.0,
        runner_up=listed,
        runner_up_loss=float(runner_up_losses.mean()),
        runner_up_better=better,
        margin=margin,
        margin_standard_error=error,
        statement=statement,
    )
