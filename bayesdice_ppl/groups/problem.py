"""The problem behind a belief, prepared again, with the belief's own draws in it.

A belief keeps the draws of the ratio's parameters and of the values. Its key and settings lead to
the same features, the same Sigma and the same prices. So every draw has the same loss again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import BeliefView, annotate, read_unseen
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.fitting import FitSettings, Prepared, prepare_fit
from bayesdice_ppl.fitting.again import key_again, settings_again
from bayesdice_ppl.fitting.units import in_units, settings_in_units, units_of
from bayesdice_ppl.logs import Logs, RewardUnits, check_held
from bayesdice_ppl.models import LinearRatio, Ratio, RatioModel, TangentRatio
from bayesdice_ppl.policies import ContinuousPolicy, Policies, Policy

if TYPE_CHECKING:
    from xarray import DataTree

MOST_DRAWS = 1_000
"""Draws for which groups are made."""


class Behind(NamedTuple):
    """What is behind a belief.

    Attributes
    ----------
    belief
        The belief, with at most 1,000 draws.
    prepared
        Its problem, with rewards in units of their own.
    settings
        Its settings.
    units
        The units of the problem's rewards.
    latent
        The ratio's latent numbers of each draw, shape (S, N, L).
    value
        The values without pairs that were never logged, in the units, shape (S, N).
    loss
        The losses of the draws, as they were recorded, shape (S, N).
    shape
        Numbers of chains and draws, whose product is S.
    """

    belief: DataTree
    prepared: Prepared
    settings: FitSettings
    units: RewardUnits
    latent: Float[np.ndarray, "S N L"]
    value: Float[np.ndarray, "S N"]
    loss: Float[np.ndarray, "S N"]
    shape: tuple[int, int]

    def ratio_of(self, j: int) -> Ratio:
        """The ratio of candidate j; its arrays are double precision."""
        return cast("Ratio", jax.tree.map(lambda x: np.asarray(x)[j], self.prepared.problem.ratio))

    def ratios(self, j: int) -> Float[np.ndarray, "S P"]:
        """The ratio of candidate j at each pair in each draw, as the constraint sees it."""
        ratio, latent = self.ratio_of(j), self.latent[:, j]
        if not isinstance(ratio, TangentRatio):
            return np.asarray(ratio.by_pair(latent))
        # The constraint's residual is linear around the mode, and so is the ratio behind it.
        point = np.asarray(ratio.point)[:-1]
        slopes = np.asarray(ratio.pair_slopes(point))
        return np.asarray(ratio.by_pair(point)) + (latent - point) @ slopes.T


def behind(
    belief: DataTree,
    logs: Logs,
    policies: Mapping[str, Any],
    *,
    features: FeatureChoice | None = None,
    model: RatioModel | None = None,
) -> Behind:
    """Prepare the problem behind a belief again.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`.
    logs, policies
        Those that it was fitted on.
    features, model
        Those that it was fitted with, where they are not the defaults: it keeps only their text.

    Raises
    ------
    BeliefError
        It was made otherwise, or on other logs or candidates; its settings cannot be rebuilt; or
        it has no draws of the ratio.
    """
    check_held(logs, "groups of a belief")
    view = BeliefView(belief)
    settings = settings_again(view, logs, features=features, model=model)
    _check(view, settings, logs)
    candidates = policies if isinstance(policies, Policies) else Policies(policies)
    units = units_of(logs, settings)
    prepared = _prepared(in_units(logs, units), candidates, settings, units, view)
    if tuple(view.names) != prepared.inputs.names:
        raise BeliefError(
            f"belief: expected one about {', '.join(prepared.inputs.names)}, found one about "
            f"{', '.join(view.names)}. Give the candidates that it was fitted with."
        )
    thin = thinned(belief)
    own = BeliefView(thin)
    value = own.value
    shape = (value.shape[0], value.shape[1])
    flat = value.reshape(-1, len(own.names)).astype(np.float64)
    flat = units.into(_of_logged_pairs(thin, own, flat))
    name, _ = settings.model.record(tabular=settings.tabular)
    recorded = np.asarray(thin["posterior"][name].to_numpy(), dtype=np.float64)
    recorded = recorded.reshape(-1, *recorded.shape[2:])
    loss = own.loss.reshape(flat.shape)
    found = Behind(thin, prepared, settings, units, recorded, flat, loss, shape)
    latent = np.stack([_latent(found.ratio_of(j), recorded[:, j]) for j in range(len(own.names))])
    return found._replace(latent=np.moveaxis(latent, 0, 1))


def _check(view: BeliefView, settings: FitSettings, logs: Logs) -> None:
    if not settings.plain:
        raise BeliefError(
            "belief: expected one of the mean reward, found one of the statistic "
            f"{', '.join(map(str, settings.statistic))}. Fit it again with statistic='mean'."
        )
    if settings.needs_training:
        raise BeliefError(
            f"belief: expected a model whose draws can be followed, found {settings.model}, whose "
            "networks were trained and are not kept. Fit it with another model."
        )
    name, _ = settings.model.record(tabular=settings.tabular)
    if name not in view.belief["posterior"].data_vars:
        raise BeliefError(
            f"belief: expected draws of the ratio in posterior/{name}, found none. Fit it again "
            "with numerics=bd.Numerics(weights=True)."
        )
    known = (view.n_transitions, view.n_episodes)
    if known != (logs.n_transitions, logs.n_episodes):
        raise BeliefError(
            f"belief: expected one from these logs ({logs.n_transitions:,} transitions, "
            f"{logs.n_episodes:,} episodes), found one from {known[0]:,} transitions, {known[1]:,} "
            "episodes. Give the logs that it was fitted on."
        )


def _prepared(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: FitSettings,
    units: RewardUnits,
    view: BeliefView,
) -> Prepared:
    moved = settings_in_units(settings, units)
    return prepare_fit(logs, policies, moved, key_again(view), guided=False)


def _of_logged_pairs(
    belief: DataTree, view: BeliefView, values: Float[np.ndarray, "S N"]
) -> Float[np.ndarray, "S N"]:
    """The values as the constraint sees them: without pairs that were never logged."""
    unseen = read_unseen(belief, tuple(view.names))
    if unseen is None:
        return values
    kept = np.sqrt(1.0 - unseen.share)
    return view.guide_mean - view.unseen_shift + (values - unseen.center) * kept


def _latent(ratio: Ratio, recorded: Float[np.ndarray, "S W"]) -> Float[np.ndarray, "S L"]:
    """The latent numbers behind what a belief records."""
    inner = ratio.inner if isinstance(ratio, TangentRatio) else ratio
    if isinstance(inner, LinearRatio) and inner.basis is None:
        # The ratio itself is recorded, and is 0 where a candidate never is.
        active = np.asarray(inner.moments.active) > 0.0
        safe = np.where(active, recorded, 1.0)
        found = np.asarray(inner.link.weight(safe))
        return np.where(active, found, np.asarray(inner.prior_mean)[:-1])
    return recorded


def thinned(belief: DataTree) -> DataTree:
    """A belief with at most 1,000 of its draws, at even distances, which is noted in it."""
    value = belief["posterior"]["value"]
    chains, draws = value.sizes.get("chain", 1), value.sizes["draw"]
    most = max(MOST_DRAWS // chains, 1)
    if draws <= most:
        return belief.copy()
    rows = np.linspace(0, draws - 1, most).round().astype(int)
    found = belief.copy()
    for group, tree in belief.children.items():
        if "draw" in tree.dataset.dims:
            found[group] = type(belief)(tree.to_dataset().isel(draw=rows))
    annotate(
        found,
        notes=[
            *BeliefView(belief).notes,
            f"groups for ArviZ were added: {most * chains:,} of its {draws * chains:,} draws are "
            "kept, at even distances",
        ],
    )
    return found
