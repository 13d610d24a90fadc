"""From counts and candidates to the problem that an engine solves.

Where a model computes on NumPy's arrays, nothing is compiled: the next log has other shapes.
Elsewhere candidates have the same shapes, so every stage is compiled once for all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import added, each, library_of, one_by_one, replaced
from bayesdice_ppl.constraint import (
    AuxiliaryConstraint,
    ChanceConstraint,
    Constraint,
    PenaltyChoice,
    Price,
    chance_price,
    invertible,
    live_rows,
    penalties,
    residual_rank,
    row_mean_square,
)
from bayesdice_ppl.inference.dependence import Dependence, GroupedRows, Unit, settle
from bayesdice_ppl.inference.jackknife import Groups, deal_groups, widened
from bayesdice_ppl.inference.pilot import Pilot, run_pilot, value_variances
from bayesdice_ppl.inference.shapes import (
    known_covariance,
    known_shift,
    shape_values,
    tails_of_units,
)
from bayesdice_ppl.inference.skewness import CountedRows, Rows, Tails
from bayesdice_ppl.models import (
    Coordinates,
    LinearGaussianRatio,
    PlainModel,
    Ratio,
    RatioModel,
    TangentRatio,
    ValueAlone,
    linear,
    tangent_at_mode,
)
from bayesdice_ppl.models.coordinates import rough_noise
from bayesdice_ppl.moments import (
    NORMALIZATION_ROW,
    VALUE_ROW,
    Candidates,
    Cells,
    KnownMeans,
    MomentSettings,
    Prior,
    TransformedRewards,
    build_moments,
    state_features,
    with_rewards,
)

QUICK = {"xla_backend_optimization_level": 0}
"""For functions that run once and spend their time in LAPACK, as optimizing takes longer."""


class FitForm(NamedTuple):
    """What is fitted, whatever the engine (hashable).

    Attributes
    ----------
    moments
        How the log is read.
    constraint
        The chance constraint.
    model
        The model of the ratio.
    prior
        How wide the priors are.
    by_episode
        Whether episodes are the independent unit, rather than transitions.
    small_sample
        Whether rarely logged pairs widen the belief.
    jackknife
        Most groups of episodes that are left out in turn and may widen the belief; 0: none.
    """

    moments: MomentSettings
    constraint: Constraint
    model: RatioModel
    prior: Prior
    by_episode: bool = False
    small_sample: bool = True
    jackknife: int = 0

    @property
    def affine_multipliers(self) -> bool:
        """Whether the best multipliers are affine in the latent numbers, as the guide's are.

        They are if the ratio is linear, the penalty is quadratic, and the surrogate is Markov's.
        """
        return self.model.linear and self.constraint.closed_form_missing() is None

    @property
    def eliminates(self) -> bool:
        """Whether the weights can be eliminated from the closed form of the values.

        They can be if there is a Gaussian weight for each pair, transitions are the unit of Sigma,
        and the price is that of a calibrated belief.
        """
        chosen = self.constraint
        one_each = self.moments.tabular and self.model == linear() and not self.by_episode
        priced = chosen.lam is None and chosen.epsilon is None and chosen.normalization is None
        return one_each and priced and chosen.calibrated and self.affine_multipliers

    @property
    def plain(self) -> bool:
        """Whether the model computes on NumPy's arrays, so that nothing need be compiled."""
        return isinstance(self.model, PlainModel) and self.model.plain


class Problem(NamedTuple):
    """All N candidates' problems, stacked along a leading axis; `of(j)` is one of them.

    Attributes
    ----------
    cells
        The log (shared).
    ratio, constraint, coordinates
        The arguments of the model and the guide.
    pilots
        The first estimates, with Sigma.
    prices
        lambda, epsilon and xi of each candidate.
    rewards
        Each entry's transformed rewards, or None for the log's own.
    dependence, unit
        The rows behind the cells, and the unit of independence; None where transitions, or
        episodes, were taken as they are.
    tails
        What third and fourth moments of the errors say, or None where values have Student's t as
        it is: without the small-sample rule on one-hot features, without episodes as the unit on
        others.
    known
        What a known kind of reward adds to the covariance of the values, shape (N, N), or None.
    """

    cells: Cells
    ratio: Ratio
    constraint: ChanceConstraint
    coordinates: Coordinates
    pilots: Pilot
    prices: tuple[Price, ...]
    rewards: TransformedRewards | None = None
    dependence: GroupedRows | None = None
    unit: Unit | None = None
    tails: Tails | None = None
    known: Float[np.ndarray, "N N"] | None = None

    @property
    def tangent(self) -> bool:
        """Whether the ratio is taken as it is linear around its mode."""
        return isinstance(self.ratio, TangentRatio)

    @property
    def alone(self) -> bool:
        """Whether the weights were eliminated: neither they nor the loss can be drawn."""
        return isinstance(self.ratio, ValueAlone)

    @property
    def converged(self) -> Bool[np.ndarray, " N"]:
        """Whether each mode was found; True where none is needed."""
        if isinstance(self.ratio, TangentRatio):
            return np.asarray(self.ratio.converged)
        return np.ones(self.n_policies, dtype=bool)

    @property
    def arrays(self) -> Problem:
        """What compiled functions take: without prices and what is known of the rows."""
        nothing: dict[str, Any] = dict.fromkeys(("rewards", "dependence", "unit", "tails", "known"))
        return self._replace(prices=(), **nothing)

    @property
    def n_policies(self) -> int:
        """Number of candidates, or of entries."""
        return self.pilots.value.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of rows of the residual."""
        return self.pilots.slope.shape[-1]

    def of(self, j: int) -> tuple[Ratio, ChanceConstraint, Coordinates]:
        """The arguments of the guide for candidate j; the first two are those of the model."""
        return jax.tree.map(lambda x: x[j], (self.ratio, self.constraint, self.coordinates))


def prepare(
    cells: Cells,
    candidates: Candidates,
    form: FitForm,
    rewards: TransformedRewards | None = None,
    dependence: GroupedRows | None = None,
    *,
    rows: Rows | CountedRows | None = None,
    behind: Dependence | None = None,
    known: KnownMeans | None = None,
    guided: bool = True,
    tangent: bool = False,
) -> Problem:
    """Moments, first estimate, chance constraint and coordinates of every candidate.

    Parameters
    ----------
    cells
        The log.
    candidates
        The candidates; with ``rewards``, one for each of its J entries.
    form
        What is fitted.
    rewards
        Each entry's transformed rewards, or None for the log's own.
    dependence
        The rows behind the cells and how they may be grouped, for the unit of independence.
    rows
        The rows behind the cells, for skewness; None: values have Student's t as it is.
    behind
        With episodes as the unit, the rows behind the cells: ``dependence``, or the same without
        groupings; None: values have Student's t as it is.
    known
        What is known of the pairs' mean rewards, where the kind of reward is known; else None.
    guided
        Whether the engine moves in coordinates. For many pairs they cost as much as a closed form,
        so they are made only if needed.
    tangent
        Whether the engine solves the problem as it is linear around its mode.
    """
    chosen = form.constraint
    correction = None if dependence is None else dependence.correction
    sums = None if rewards is None else rewards._replace(by_row=None, cell=None)
    with jax.enable_x64(True):
        first = _pilots if form.plain else _compiled_pilots

        def estimate(shift: Float[np.ndarray, " N"] | None) -> tuple[Ratio, Pilot, Any]:
            return first(
                jax.tree.map(np.asarray, cells),
                jax.tree.map(np.asarray, candidates),
                sums,
                form.moments,
                form.model,
                form.prior,
                form.by_episode,
                form.small_sample,
                shift,
            )

        ratio, pilots, live = estimate(None if correction is None else correction.shift)
        if known is not None:
            # The first estimates say how much of its steps a value spends at each pair.
            ratio, pilots, live = estimate(known_shift(cells, pilots, known))
        pilots, unit, tails = widen(cells, pilots, form, rewards, dependence, rows, known)
        n = float(cells.n_transitions)
        covariances = np.asarray(pilots.covariance)
        kept = _own_rows(covariances.shape[-1], chosen)
        prices = tuple(
            chance_price(
                n,
                residual_rank(covariance[np.ix_(kept, kept)]),
                xi=chosen.xi,
                lam=None if isinstance(chosen.lam, str) else chosen.lam,
                epsilon=chosen.epsilon,
            )
            for covariance in covariances
        )
        own = chosen.normalization
        auxiliary = None
        if own is not None:
            found = chance_price(n, 1, xi=own.xi, lam=own.lam, epsilon=own.epsilon)
            auxiliary = (found.lam / found.epsilon, found.epsilon)
        searched = tangent and not form.model.linear
        then = _constraints if form.plain else _compiled_constraints
        constraint, coordinates, ratio, pilots = then(
            jax.tree.map(np.asarray, cells),
            ratio,
            pilots,
            live,
            sums,
            np.asarray([price.lam / price.epsilon for price in prices]),
            np.asarray([price.epsilon for price in prices]),
            auxiliary,
            chosen.penalty,
            chosen.value_constraint,
            guided,
            (searched, form.model.linear),
            deal_groups(cells, form.jackknife) if form.jackknife else None,
            form.moments,
        )
        if form.by_episode and not form.moments.tabular and behind is not None:
            variance = value_variances(pilots, n)
            law = chosen.value_law
            tails = tails_of_units(cells, pilots, (behind, unit), variance, law, rewards)
    shared = (cells, ratio, constraint, coordinates, pilots, prices, rewards)
    change = None if known is None else known_covariance(cells, pilots, known)
    return Problem(*shared, dependence, unit, tails, change)


def widen(
    cells: Cells,
    pilots: Pilot,
    form: FitForm,
    rewards: TransformedRewards | None,
    dependence: GroupedRows | None,
    rows: Rows | CountedRows | None,
    known: KnownMeans | None,
) -> tuple[Pilot, Unit | None, Tails | None]:
    """Widen the first estimates to the unit of independence and to what the rows show.

    Parameters
    ----------
    cells, pilots, form, rewards, dependence, rows, known
        As for `prepare`, with the first estimates of all candidates.

    Returns
    -------
    (Pilot, Unit or None, Tails or None)
        The estimates with more variance of each value, the unit, and the values' shape.
    """
    unit, tails = None, None
    correction = None if dependence is None else dependence.correction
    if dependence is not None:
        small = form.small_sample
        pilots, unit = settle(cells, pilots, dependence, rewards, small_sample=small)
    if rows is None or not (form.small_sample and form.moments.tabular):
        return pilots, unit, tails
    groups = None
    if dependence is not None and unit is not None and unit.groupings:
        groups = (dependence, unit)
    with_tails, tails = _with_tails(cells, pilots, rows, rewards, form, groups, known)
    if correction is None:
        return with_tails, unit, tails
    # The plain means' spread and lean are not those of corrected ones.
    nothing = np.zeros_like(tails.skewness)
    return pilots, unit, tails._replace(skewness=nothing, hidden=nothing)


def _with_tails(
    cells: Cells,
    pilots: Pilot,
    rows: Rows | CountedRows,
    rewards: TransformedRewards | None,
    form: FitForm,
    groups: tuple[GroupedRows, Unit] | None,
    known: KnownMeans | None,
) -> tuple[Pilot, Tails]:
    """The pilots with the variance that the rows say, and the shape of the values."""
    n, covariance = float(cells.n_transitions), np.asarray(pilots.covariance)
    variance = value_variances(pilots, n)
    shaped = shape_values(
        cells,
        pilots,
        rows,
        variance,
        form.constraint.value_law,
        rewards=rewards,
        by_episode=form.by_episode,
        groups=groups,
        known=known,
    )
    if np.any(shaped.added != 0.0):
        covariance = added(covariance, np.s_[:, VALUE_ROW, VALUE_ROW], n * shaped.added)
    df = shaped.degrees_of_freedom
    return pilots._replace(covariance=covariance, degrees_of_freedom=df), shaped.tails


def _own_rows(n_rows: int, chosen: Constraint) -> Int[np.ndarray, " r"]:
    """Rows of the residual in the main constraint."""
    rows = np.arange(n_rows)
    left_out = []
    if not chosen.value_constraint:
        left_out.append(rows[VALUE_ROW])
    if chosen.normalization is not None:
        left_out.append(rows[NORMALIZATION_ROW])
    return np.setdiff1d(rows, left_out)


def _pilots(
    log: Cells,
    candidates: Candidates,
    rewards: TransformedRewards | None,
    settings: MomentSettings,
    model: RatioModel,
    prior: Prior,
    by_episode: bool,
    small_sample: bool,
    shift: Float[Any, " N"] | None = None,
) -> tuple[Ratio, Pilot, Float[Any, "N R"]]:
    def one(
        candidate: Candidates, counted: TransformedRewards | None, moved: Any
    ) -> tuple[Ratio, Pilot, Float[Any, " R"]]:
        cells = with_rewards(log, counted)
        moments = build_moments(cells, state_features(cells, candidate), settings)
        if moved is not None:
            # The value row says how far its value is from that of the plain means.
            moments = moments._replace(offset=added(moments.offset, VALUE_ROW, moved))
        ratio: Ratio = model.build(cells, moments, prior)
        pilot = run_pilot(cells, ratio, settings, by_episode=by_episode, small_sample=small_sample)
        return ratio, pilot, live_rows(moments)

    apply = each if model.linear else one_by_one
    return apply(one, candidates, rewards, shift)


_compiled_pilots = jax.jit(
    _pilots,
    static_argnames=("settings", "model", "prior", "by_episode", "small_sample"),
    compiler_options=QUICK,
)


def _constraints(
    cells: Cells,
    ratios: Ratio,
    pilots: Pilot,
    live: Float[Any, "N R"],
    rewards: TransformedRewards | None,
    prices: Float[Any, " N"],
    epsilons: Float[Any, " N"],
    auxiliary: tuple[float, float] | None,
    penalty: PenaltyChoice,
    value_constraint: bool,
    guided: bool,
    shape: tuple[bool, bool],
    groups: Groups | None,
    settings: MomentSettings,
) -> tuple[ChanceConstraint, Coordinates, Ratio, Pilot]:
    tangent, linear = shape

    def one(
        ratio: Ratio,
        pilot: Pilot,
        rows: Float[Any, " R"],
        counted: TransformedRewards | None,
        price: Any,
        epsilon: Any,
    ) -> tuple[ChanceConstraint, Coordinates, Ratio, Pilot]:
        own_cells = with_rewards(cells, counted)
        if tangent or (groups is not None and not linear):
            noise = penalty.metric(pilot.covariance) / price
            straight: Ratio = tangent_at_mode(ratio, noise, pilot.latent)
        else:
            straight = ratio
        if groups is not None:
            straight_line = cast("LinearGaussianRatio", straight)
            pilot = widened(own_cells, straight_line, pilot, groups, settings)
        if tangent:
            ratio = straight
        mean_square = row_mean_square(own_cells, ratio.moments)
        if not value_constraint:
            rows = replaced(rows, VALUE_ROW, 0.0)
        others = rows if auxiliary is None else replaced(rows, NORMALIZATION_ROW, 0.0)
        metric = invertible(pilot.covariance, others, mean_square)
        constraint = ChanceConstraint(penalty.build(metric, others), price, epsilon)
        if auxiliary is not None:
            alone = rows - others
            own = invertible(pilot.covariance, alone, mean_square)
            # The residual is one number here, so any other penalty becomes Mahalanobis.
            choice = penalty if penalty.quadratic else penalties.mahalanobis()
            own_price, own_epsilon = (library_of(price).asarray(number) for number in auxiliary)
            constraint = constraint._replace(
                auxiliary=AuxiliaryConstraint(choice.build(own, alone), own_price, own_epsilon)
            )
            metric = joined_metric(metric, own, price / own_price)
        if not guided:
            return constraint, Coordinates(np.zeros(1), np.eye(1)), ratio, pilot
        noise = rough_noise(metric, rows, price, tight=penalty.calibrated)
        found = ratio.coordinates(noise, rows, value_constraint=value_constraint)
        return constraint, found, ratio, pilot

    # Together, candidates in a loop all wait for the one that takes most steps.
    apply = one_by_one if tangent or groups is not None else each
    return apply(one, ratios, pilots, live, rewards, prices, epsilons)


_compiled_constraints = jax.jit(
    _constraints,
    static_argnames=("penalty", "value_constraint", "guided", "shape", "settings"),
    compiler_options=QUICK,
)


def joined_metric(
    metric: Float[Any, "R R"], own: Float[Any, "R R"], share: Float[Any, ""]
) -> Float[Any, "R R"]:
    """One metric for both constraints; the normalization is uncorrelated, at its own price.

    Parameters
    ----------
    metric, own
        Metric of all rows, and that of the normalization (only its diagonal entry is read).
    share
        Price of the main constraint over that of the normalization.
    """
    row = NORMALIZATION_ROW
    apart = replaced(replaced(metric, row, 0.0), np.s_[:, row], 0.0)
    return replaced(apart, (row, row), own[row, row] * share)
