"""Beliefs of values alone, for many pairs or many candidates on labels.

A ranking needs the values and how their errors move together. Neither takes a draw of the ratio at
each pair. Here the weights are eliminated (`bayesdice_ppl.models.elimination`), so that time and
memory follow the transitions that were logged, and not the square of the pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.arrays import each
from bayesdice_ppl.constraint import (
    ChanceConstraint,
    SparseCovariance,
    chance_price,
    small_sample_rule,
    sparse_covariance,
)
from bayesdice_ppl.inference.dependence import GroupedRows
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.inference.problem import FitForm, Problem, widen
from bayesdice_ppl.inference.shapes import known_covariance, known_shift
from bayesdice_ppl.inference.skewness import CountedRows, Rows
from bayesdice_ppl.models import Coordinates, ValueAlone, eliminate, weight_prior
from bayesdice_ppl.models.elimination import Eliminated
from bayesdice_ppl.models.flow import PolicyFlow
from bayesdice_ppl.moments import (
    Candidates,
    Cells,
    KnownMeans,
    MomentSettings,
    Prior,
    sparse_moments,
)
from bayesdice_ppl.progress import stage

if TYPE_CHECKING:
    from bayesdice_ppl.models import Ratio

_PROBES = 8
"""Random directions from which the trace of a large matrix is estimated."""
_FAR = 1e9
"""Squared length of a residual that nothing brings near zero."""
_FEW = 128
"""Test rows up to which that trace is exact."""
_ROUGH = 1e-3
"""Tolerance of the systems behind that estimate."""


def prepare_values(
    cells: Cells,
    candidates: Candidates,
    form: FitForm,
    dependence: GroupedRows | None = None,
    *,
    rows: Rows | CountedRows | None = None,
    known: KnownMeans | None = None,
) -> Problem:
    """The problem of every candidate with its weights eliminated; else `prepare`.

    Parameters
    ----------
    cells, candidates, form, dependence, rows, known
        As for `bayesdice_ppl.inference.prepare`. The form is one that `FitForm.eliminates`.
    """
    correction = None if dependence is None else dependence.correction
    settings, n = form.moments, float(cells.n_transitions)

    def estimate(shift: Float[np.ndarray, " N"] | None) -> ValueFit:
        return fit_values(cells, candidates, settings, form.prior, form.small_sample, shift)

    pilots, ratio = estimate(None if correction is None else correction.shift)
    if known is not None:
        pilots, ratio = estimate(known_shift(cells, pilots, known))
    pilots, unit, tails = widen(cells, pilots, form, None, dependence, rows, known)
    prices = tuple(chance_price(n, int(rank), xi=form.constraint.xi) for rank in ratio.rank)
    n_policies = len(prices)
    constraint = ChanceConstraint(
        each(form.constraint.penalty.build, pilots.covariance, np.ones((n_policies, 1))),
        np.array([price.lam / price.epsilon for price in prices]),
        np.array([price.epsilon for price in prices]),
    )
    still = Coordinates(np.zeros((n_policies, 1)), np.ones((n_policies, 1, 1)))
    change = None if known is None else known_covariance(cells, pilots, known)
    # Of a ratio it has what the closed form and the prior of a value need, and no program.
    return Problem(
        cells,
        cast("Ratio", ratio),
        constraint,
        still,
        pilots,
        prices,
        dependence=dependence,
        unit=unit,
        tails=tails,
        known=change,
    )


class ValueFit(NamedTuple):
    """The first estimate, and what is left of the residual.

    Attributes
    ----------
    pilot
        The first estimate. Its ``covariance`` is one number, Sigma along the action values.
    ratio
        The residual with its weights eliminated.
    """

    pilot: Pilot
    ratio: ValueAlone


def fit_value(
    cells: Cells,
    candidate: Candidates,
    settings: MomentSettings,
    prior: Prior,
    *,
    small_sample: bool,
    shift: float = 0.0,
) -> ValueFit:
    """One candidate's value, by the steps of `bayesdice_ppl.inference.run_pilot`.

    Parameters
    ----------
    cells, candidate
        The log, and one of `Candidates`; its fields lack the first axis. NumPy's arrays.
    settings, prior
        How the log is read, and the widths of the priors.
    small_sample
        Whether rarely logged pairs widen the belief.
    shift
        What is added to the value's row.
    """
    n, n_pairs = float(cells.n_transitions), len(cells.pair_state)
    moments = sparse_moments(cells, candidate, settings)
    n_own = len(moments.pairs)
    visits = np.bincount(cells.pair, cells.count, n_pairs)
    widths = weight_prior(moments, visits, n, prior)

    def everywhere(own: Float[np.ndarray, " A"]) -> Float[np.ndarray, " P"]:
        found = np.zeros(n_pairs)
        found[moments.pairs] = own
        return found

    at_one = sparse_covariance(cells, moments, everywhere(np.ones(n_own)), settings)
    flow = PolicyFlow(moments, settings.gamma)
    first = eliminate(flow, at_one, n, widths, shift=shift)
    by_pair = everywhere(first.weights)
    frozen = sparse_covariance(cells, moments, by_pair, settings)
    found = eliminate(flow, frozen, n, widths, shift=shift)
    # A row of the design times the slope is a temporal-difference error.
    slope = -first.tests
    error = moments.rows @ slope + moments.fresh * (moments.start @ slope) + moments.value
    along = frozen.variance(slope)
    more, df = 0.0, np.inf
    if small_sample:
        more, df = small_sample_rule(cells, by_pair, error, moments.unit)
    loss = _of_loss(frozen, found, n, flow)
    return ValueFit(
        pilot=Pilot(
            by_pair=by_pair,
            value=np.float64(first.value),
            covariance=np.array([[along + n * more]]),
            ratio=by_pair[cells.pair],
            error=error,
            start_value=moments.initial @ slope,
            start_weight=np.float64(frozen.entering),
            slope=np.r_[everywhere(slope[:n_own]), slope[n_own:], 1.0],
            degrees_of_freedom=np.float64(df),
            latent=np.zeros(0),
            unit=moments.unit,
        ),
        ratio=ValueAlone(
            estimate=np.float64(found.estimate),
            variance=np.float64(found.variance),
            base=np.float64(along),
            prior_mean=np.float64(widths.mean),
            prior_sd=np.float64(widths.sd),
            **{name: np.float64(number) for name, number in loss._asdict().items()},
        ),
    )


class _Loss(NamedTuple):
    """The loss under the posterior; see the fields of `ValueAlone`."""

    rank: float
    free: float
    scale: float
    pulled: float


def _of_loss(covariance: SparseCovariance, found: Eliminated, n: float, flow: PolicyFlow) -> _Loss:
    """Rank of Sigma, and the loss under the posterior by two moments.

    With A = G P0 G' + V and V = Sigma / n, the residual under the posterior has the mean V A^-1 r
    and the covariance V - V A^-1 V. In the metric of V its squared length is a sum of chi-squares
    with the weights 1 - t, where t are the eigenvalues of T = A^-1 V.
    """
    varies = covariance.diagonal > 0.0
    rank = int(varies.sum()) - flow.redundant
    if flow.moments.by_state:
        rank = min(rank, len(np.unique(flow.moments.state)))
    rank += covariance.value > 0.0
    rows, pull = found.pull[:-1], float(found.pull[-1])
    pulled = float(rows @ covariance.times(rows)) + 2.0 * pull * float(rows @ covariance.cross)
    pulled = _FAR if found.unmet else (pulled + pull**2 * covariance.value) / n
    if len(varies) <= _FEW:
        whole = found.solve(covariance.dense(), _ROUGH) / n
        first, second = float(np.trace(whole)), float((whole * whole.T).sum())
    else:
        # The same directions for every log and candidate: no choice of them is better.
        signs = np.random.default_rng(0).choice((-1.0, 1.0), (len(varies), _PROBES))
        signs[~varies] = 0.0
        both = found.solve(np.concatenate([covariance.times(signs), signs], axis=1), _ROUGH) / n
        after, before = both[:, :_PROBES], covariance.times(both[:, _PROBES:])
        first = float((signs * after).sum()) / _PROBES
        second = float((before * after).sum()) / _PROBES
    first = float(np.clip(first, 0.0, rank - 1.0)) if rank > 1 else 0.0
    total = rank - first
    squares = float(np.clip(total - first + second, total**2 / max(rank, 1), total))
    if not total > 0.0:
        return _Loss(rank, 1.0, 1.0, max(pulled, 0.0))
    return _Loss(rank, total**2 / squares, squares / total, max(pulled, 0.0))


def fit_values(
    cells: Cells,
    candidates: Candidates,
    settings: MomentSettings,
    prior: Prior,
    small_sample: bool,
    shift: Float[np.ndarray, " N"] | None = None,
) -> ValueFit:
    """`fit_value` of every candidate, stacked along a leading axis."""
    with stage("values of the candidates", len(candidates.active)) as shown:

        def one(candidate: Candidates, moved: Any) -> ValueFit:
            own = 0.0 if moved is None else float(moved)
            found = fit_value(
                cells, candidate, settings, prior, small_sample=small_sample, shift=own
            )
            shown.advance()
            return found

        return each(one, candidates, shift)
