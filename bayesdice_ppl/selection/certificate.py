"""Evidence for a ranking: whether it is proven, and how close the next best comes.

"Optimal" alone says little. Two rankings can be all but equal under the belief, or one can win on
average and lose in half of the draws. So the runner-up, its distance, and how often it would have
been the better choice are part of the answer. Where optimality is not proven, the bound says how
much better another ranking might be, and whether these draws could tell. Where there is no bound,
the certificate says so.
"""

from collections.abc import Sequence
from typing import NamedTuple, final, override

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.plain import plain_text
from bayesdice_ppl.scores import Score
from bayesdice_ppl.scores.forms import ROUNDING, Coverage
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.solvers import Found

_PROVEN = {
    "sorting": "Sorting by the expected gain of each policy proves it optimal",
    "assignment": "It is the optimum of a linear assignment of policies to places",
    "branch and bound": "Branch and bound proves it optimal",
    "pairwise ordering": "Its loss meets a lower bound, which proves it optimal",
}
# Names that a sentence lists before it counts the rest.
_LISTED = 5


def listing(names: Sequence[str], most: int = _LISTED) -> str:
    """List the first names and count the rest: `a, b and 98 more`.

    Parameters
    ----------
    names : sequence of str
        At least one.
    most : int
        How many to list; one more is listed rather than counted.
    """
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


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
    gap_in_errors : float or None
        The gap over the Monte Carlo error of the expected loss, infinite where that is 0. Up to 1,
        no other ranking is better by more than these draws can tell.
    runner_up : tuple of str or None
        The next best order of all N names; None if none was found.
    runner_up_proven : bool
        Whether no ranking comes between the two, or the runner-up is only the best other one that
        was seen. Trying all rankings proves it, and so does sorting.
    runner_up_loss : float or None
        Its expected loss.
    runner_up_better : float or None
        Share of draws in which the runner-up has a strictly lower loss.
    margin : float or None
        Expected loss of the runner-up minus that of the ranking, paired draw by draw.
    margin_standard_error : float or None
        Monte Carlo error of the margin. A margin under twice that could change its sign with other
        draws.
    statement : str
        All this in words.
    """

    status: str
    method: str
    evaluated: int
    gap: float | None
    relative_gap: float | None
    bound: float | None
    gap_in_errors: float | None = None
    runner_up: tuple[str, ...] | None = None
    runner_up_proven: bool = False
    runner_up_loss: float | None = None
    runner_up_better: float | None = None
    margin: float | None = None
    margin_standard_error: float | None = None
    statement: str = ""

    @override
    def __str__(self) -> str:
        return plain_text(self.statement)

    @override
    def __repr__(self) -> str:
        """Show all fields, of a long runner-up the first names alone."""
        shown = self._asdict()
        if self.runner_up is not None:
            shown["runner_up"] = listing(self.runner_up)
        return f"Certificate({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


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


def judge(problem: RankingProblem, prefix: tuple[int, ...], shape: tuple[int, ...]) -> Judged:
    """Take the losses of a ranking in draws of a shape (chains, draws), and their risk."""
    score = problem.score
    losses = np.asarray(score.of_digest(np, problem.digest, np.array([prefix], np.intp)))[0]
    influence = np.asarray(score.risk.influence(losses))
    return Judged(losses.reshape(shape), float(score.risk.of(losses)), influence.reshape(shape))


def certify(
    problem: RankingProblem,
    found: Found,
    own: Judged,
    other: Judged | None,
    runner_up: tuple[str, ...] | None,
) -> Certificate:
    """Put together the certificate of what a solver found.

    Parameters
    ----------
    problem : RankingProblem
        What was solved.
    found : Found
        The solver's answer.
    own, other : Judged, and Judged or None
        Losses of the ranking and of its runner-up, in the same draws.
    runner_up : tuple of str or None
        The next best order of all N names, if there is one.
    """
    rounding = ROUNDING * float(np.abs(own.losses).max())
    gap = None if found.bound is None else max(float(found.loss - found.bound), 0.0)
    if gap is not None and gap <= rounding:
        gap = 0.0
    relative = None
    if gap is not None and isinstance(problem.form, Coverage):
        scale = problem.form.single_regret
        relative = gap / scale if scale > 0.0 else 0.0
    status = "unproven" if gap is None else "gap" if gap > 0.0 else "optimal"
    certificate = Certificate(
        status=status,
        method=found.method,
        evaluated=found.evaluated,
        gap=gap,
        relative_gap=relative,
        bound=found.bound,
        gap_in_errors=None if gap is None else _in_errors(gap, own.standard_error),
        runner_up_proven=found.runner_up_proven,
    )
    proof = _proof(problem, certificate, own.standard_error)
    if runner_up is None or other is None or found.runner_up is None:
        return certificate._replace(statement=_without_runner_up(problem, certificate, proof))
    difference = _rounded(other.losses - own.losses, own, other)
    change = _rounded(other.influence - own.influence, own, other)
    margin = other.risk - own.risk
    if abs(margin) <= ROUNDING * max(abs(other.risk), abs(own.risk)):
        margin = 0.0
    certificate = certificate._replace(
        runner_up=runner_up,
        runner_up_loss=other.risk,
        runner_up_better=float((difference < 0.0).mean()),
        margin=margin,
        margin_standard_error=standard_error(change),
    )
    listed = runner_up[: len(found.runner_up)]
    second = _second(problem.score, certificate, listed, alike=not difference.any())
    return certificate._replace(statement=f"{proof} {second}")


def _in_errors(gap: float, error: float) -> float:
    """Measure a gap in standard errors; losses that never vary have none."""
    if gap == 0.0:
        return 0.0
    return gap / error if error > 0.0 else float("inf")


def _rounded(difference: np.ndarray, own: Judged, other: Judged) -> np.ndarray:
    """Take losses that differ by rounding alone as equal."""
    size = max(float(np.abs(own.losses).max()), float(np.abs(other.losses).max()))
    return np.where(np.abs(difference) <= ROUNDING * size, 0.0, difference)


def _second(score: Score, certificate: Certificate, listed: tuple[str, ...], *, alike: bool) -> str:
    """Say how close the runner-up comes, of which the launch is listed."""
    margin, error = certificate.margin, certificate.margin_standard_error
    better = certificate.runner_up_better
    if margin is None or error is None or better is None:
        return ""
    which = "The next best" if certificate.runner_up_proven else "The best other one seen"
    which += f" ({listing(listed)})"
    if alike:
        return f"{which} has the same loss in every draw: a tie."
    how = "on average" if score.averaged else f"by {score.risk.name}"
    tie = margin <= 2 * error and better > 0.0
    loses = f"{margin:.3g} more" if margin else "as much"
    return (
        f"{which} loses {loses} {how} (Monte Carlo error {error:.2g}) and would have been strictly "
        f"better in {better:.0%} of the draws."
    ) + (" The two are a tie as far as these draws can tell." if tie else "")


def _without_runner_up(problem: RankingProblem, certificate: Certificate, proof: str) -> str:
    if not certificate.runner_up_proven:
        return proof
    if not problem.rules.free:
        return f"{proof} No other launch is allowed."
    if certificate.method == "exhaustive" and certificate.evaluated == 1:
        return "There is only one choice."
    return (
        f"{proof} Every order has the same loss in every draw: this score cannot tell them apart "
        "here."
    )


def _proof(problem: RankingProblem, certificate: Certificate, error: float) -> str:
    """Say how much is proven, and how; the error is that of the expected loss."""
    score, tried = problem.score, f"{certificate.evaluated:,}"
    over = f"over {len(problem.values):,} draws"
    allowed = "" if problem.rules.free else " that is allowed"
    what = "expected loss" if score.averaged else f"{score.risk.name} of the loss"
    if certificate.method == "exhaustive":
        depth = problem.depth
        first = f"{depth} of the {problem.n_policies} places" if depth > 1 else "place"
        kind = "orders of" if score.ordered else "choices for"
        every = f"All {tried} {'allowed ' if allowed else ''}{kind} the first {first}"
        return f"{every} were tried {over}; none has a lower {what}."
    if certificate.status == "optimal":
        how = _PROVEN[certificate.method]
        nodes = f" ({tried} nodes)" if certificate.method == "branch and bound" else ""
        return f"{how}{nodes} {over}: no ranking{allowed} has a lower {what}."
    if certificate.gap is not None:
        return _open(problem, certificate, error, what)
    reason = "" if score.averaged else f" There is no exact solver for {score.risk.name}."
    return (
        f"Unproven: the best of {tried} rankings that beam and local search tried {over}; one "
        f"that was not tried may have a lower {what}.{reason}"
    )


def _open(problem: RankingProblem, certificate: Certificate, error: float, what: str) -> str:
    """Say how much the proof leaves open, and whether these draws can tell so much."""
    gap, relative, tried = certificate.gap, certificate.relative_gap, certificate.evaluated
    allowed = "" if problem.rules.free else "allowed "
    part = "" if relative is None else f" ({relative:.1%} of what the single best guess loses)"
    tree = certificate.method == "branch and bound"
    how = f"{certificate.method} ({tried:,} {'nodes' if tree else 'tried'})"
    over = f"Over {len(problem.values):,} draws"
    if certificate.gap_in_errors is not None and certificate.gap_in_errors <= 1.0:
        return (
            f"{over} {how} proves that no other {allowed}choice can be better by more than "
            f"{gap:.2g}, which is less than these draws can tell (standard error of the {what} "
            f"{error:.2g})."
        )
    loose = (
        " Where candidates are about equally good such a proof leaves more open than there is."
        if isinstance(problem.form, Coverage)
        else ""
    )
    return (
        f"{over} {how} found no better {allowed}choice, and proves that none has {what} lower by "
        f"more than {gap:.2g}{part}.{loose}"
    )
