"""Evidence for a ranking: whether it is proven, and how close the next best comes.

"Optimal" alone says little. Two rankings can be all but equal under the belief, or one can win on
average and lose in half of the draws; so the runner-up, its distance and how often it would have
been the better choice are part of the answer. Where optimality is not proven the bound says how
much better another ranking might be, and where there is no bound that is said.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.losses import Score
from bayesdice_ppl.losses.structure import ROUNDING
from bayesdice_ppl.selection.solvers.found import Found

_PROVEN = {
    "sorting": "Sorting by the expected gain of each policy proves it optimal",
    "assignment": "It is the optimum of a linear assignment of policies to places",
    "branch and bound": "Branch and bound proves it optimal",
    "pairwise ordering": "Its loss meets a lower bound, which proves it optimal",
}


@final
class Certificate(NamedTuple):
    """What is known about how good a ranking is, over the belief's draws.

    Attributes
    ----------
    status : str
        "optimal": no other ranking that is allowed has a lower expected loss; "gap": none is
        lower by more than `gap`; "unproven": nothing is known of those that were not tried.
    method : str
        "exhaustive": every ranking that can make a difference was tried; "sorting", "assignment",
        "branch and bound", "pairwise ordering": solvers of the form that the expected loss has;
        "local search": beam search and local moves.
    evaluated : int
        How many rankings, sets or nodes of a tree were tried.
    gap : float or None
        How much lower the expected loss of some other ranking may be, at most: 0 when optimal,
        None when unproven. In units of the loss. Under a budget precision, accuracy and ndcg are
        integer programs, whose solver (HiGHS) is exact to 1e-8.
    relative_gap : float or None
        For regrets: the gap over E[max] - max E[value], the expected regret of the single policy
        of the highest mean.
    bound : float or None
        The lower bound on the expected loss that the gap is measured from.
    runner_up : tuple of str or None
        The next best order of all N names; None if no other ranking can have another loss.
    runner_up_proven : bool
        Whether none comes between the two, or the runner-up is only the best other one seen.
    runner_up_loss : float or None
        Its expected loss.
    runner_up_better : float or None
        Share of draws in which the runner-up has a strictly lower loss.
    margin : float or None
        Expected loss of the runner-up minus that of the ranking, paired draw by draw.
    margin_standard_error : float or None
        Monte Carlo error of the margin. A margin under twice that could turn with other draws.
    statement : str
        All this in words.
    """

    status: str
    method: str
    evaluated: int
    gap: float | None
    relative_gap: float | None
    bound: float | None
    runner_up: tuple[str, ...] | None
    runner_up_proven: bool
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


@final
class Judged(NamedTuple):
    """Losses of a ranking in every draw, and their risk.

    Attributes
    ----------
    losses
        Shape (chains, draws).
    risk
        What the ranking is judged by, in units of the loss.
    influence
        Each draw's part in the risk, shape (chains, draws).
    """

    losses: Float[np.ndarray, "chain draw"]
    risk: float
    influence: Float[np.ndarray, "chain draw"]

    @property
    def standard_error(self) -> float:
        """Monte Carlo error of the risk."""
        return standard_error(self.influence)


def judge(score: Score, losses: Float[np.ndarray, "chain draw"]) -> Judged:
    """Take the risk of a ranking's losses."""
    flat = losses.reshape(-1)
    influence = np.asarray(score.risk.influence(flat)).reshape(losses.shape)
    return Judged(losses, float(score.risk.of(flat)), influence)


def certify(
    names: tuple[str, ...],
    score: Score,
    found: Found,
    own: Judged,
    other: Judged | None,
    runner_up: list[int] | None,
    *,
    scale: float | None = None,
    restricted: bool = False,
) -> Certificate:
    """Put together the certificate of what a solver found.

    Parameters
    ----------
    names : tuple of str
        The N candidates.
    score : Score
        What was minimized.
    found : Found
        The solver's answer.
    own, other : Judged, and Judged or None
        Losses of the ranking and of its runner-up, in the same draws.
    runner_up : list of int or None
        The next best order of all N, if there is one.
    scale : float, optional
        E[max] - max E[value] for regrets: what the relative gap is relative to.
    restricted : bool
        Whether rules said which launches are allowed.
    """
    rounding = ROUNDING * float(np.abs(own.losses).max())
    gap = None if found.bound is None else max(found.loss - found.bound, 0.0)
    if gap is not None and gap <= rounding:
        gap = 0.0
    status = "unproven" if gap is None else "gap" if gap > 0.0 else "optimal"
    relative = None
    if gap is not None and scale is not None:
        relative = gap / scale if scale > 0.0 else 0.0
    proof = _proof(names, score, found, status, gap, relative, own.losses.size, restricted)
    base = Certificate(
        status=status,
        method=found.method,
        evaluated=found.evaluated,
        gap=gap,
        relative_gap=relative,
        bound=found.bound,
        runner_up=None,
        runner_up_proven=found.runner_up_proven,
        runner_up_loss=None,
        runner_up_better=None,
        margin=None,
        margin_standard_error=None,
        statement=proof,
    )
    if found.method == "exhaustive" and found.evaluated == 1 and not restricted:
        return base._replace(statement="There is only one choice.")
    if runner_up is None or other is None or found.runner_up is None:
        return base._replace(statement=f"{proof} {_no_runner_up(restricted)}")
    difference = _rounded(other.losses - own.losses, own, other)
    change = _rounded(other.influence - own.influence, own, other)
    margin, error = other.risk - own.risk, standard_error(change)
    if abs(margin) <= ROUNDING * max(abs(other.risk), abs(own.risk)):
        margin = 0.0
    better = float((difference < 0.0).mean())
    listed = tuple(names[i] for i in runner_up)
    head = listed[: len(found.runner_up)]
    next_best = ", ".join(head[:8]) + (", ..." if len(head) > 8 else "")
    which = "The next best" if found.runner_up_proven else "The best other one seen"
    if difference.any():
        rest = (
            f"{which} ({next_best}) loses {margin:.3g} more {_on(score)} (Monte Carlo error "
            f"{error:.2g}) and would have been strictly better in {better:.0%} of the draws."
        )
        if margin <= 2 * error and better > 0.0:
            rest += " The two are a tie as far as these draws can tell."
    else:
        rest = f"{which} ({next_best}) has the same loss in every draw: a tie."
    return base._replace(
        runner_up=listed,
        runner_up_loss=other.risk,
        runner_up_better=better,
        margin=margin,
        margin_standard_error=error,
        statement=f"{proof} {rest}",
    )


def _on(score: Score) -> str:
    return "on average" if score.averaged else f"by {score.risk.name}"


def _no_runner_up(restricted: bool) -> str:
    if restricted:
        return "No other launch is allowed."
    return "Every order has the same loss in every draw: this score cannot tell them apart here."


def _rounded(difference: np.ndarray, own: Judged, other: Judged) -> np.ndarray:
    """Take losses that differ by rounding alone as equal."""
    size = max(float(np.abs(own.losses).max()), float(np.abs(other.losses).max()))
    return np.where(np.abs(difference) <= ROUNDING * size, 0.0, difference)


def _proof(
    names: tuple[str, ...],
    score: Score,
    found: Found,
    status: str,
    gap: float | None,
    relative: float | None,
    n_draws: int,
    restricted: bool,
) -> str:
    """Say how much is proven, and how."""
    over = f"over {n_draws:,} draws"
    allowed = " that is allowed" if restricted else ""
    what = "expected loss" if score.averaged else f"{score.risk.name} of the loss"
    tried = f"{found.evaluated:,}"
    if found.method == "exhaustive":
        depth = score.depth(len(names))
        first = f"{depth} of the {len(names)} places" if depth > 1 else "place"
        kind = "orders of" if score.ordered else "choices for"
        every = f"All {tried} {'allowed ' if restricted else ''}{kind} the first {first}"
        return f"{every} were tried {over}; none has a lower {what}."
    if status == "optimal":
        how = _PROVEN[found.method]
        nodes = f" ({tried} nodes)" if found.method == "branch and bound" else ""
        return f"{how}{nodes} {over}: no ranking{allowed} has a lower {what}."
    if status == "gap":
        part = "" if relative is None else f", {relative:.2%} of what the single best guess loses"
        return (
            f"By {found.method} ({tried} tried) {over}: no ranking{allowed} has {what} lower by "
            f"more than {gap:.3g} (gap <= {gap:.3g}{part})."
        )
    reason = (
        ""
        if score.averaged
        else f" For {score.risk.name} there is no exact solver: its structure is not the mean's."
    )
    return (
        f"Unproven: the best of {tried} rankings that beam and local search tried {over}; one "
        f"that was not tried may have a lower {what}.{reason}"
    )
