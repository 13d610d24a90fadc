"""Choosing features and the prior's scale by k-fold held-out constraint loss, by episode.

Each choice is fitted without each fold of episodes, and judged by the residual of its ratio on that
fold. The test features are the same for all choices. The least loss wins; all losses are reported,
with the standard errors of their differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.fitting.defaults import default_features
from bayesdice_ppl.fitting.prepare import MIN_EPISODES, read_inputs
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.inference.held_out import deal_folds, fit_folds, held_out_losses
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.moments import Prior
from bayesdice_ppl.policies import ContinuousPolicy, Policy
from bayesdice_ppl.progress import parts

TIE = 2.0
"""Standard errors within which a difference is a tie."""


class Alternative(NamedTuple):
    """One choice and its held-out loss.

    Attributes
    ----------
    features, prior_sd
        The choice.
    held_out_loss
        Mean over episodes and candidates; the best possible is 0, apart from noise.
    difference, standard_error
        Difference to the chosen one, and its standard error over episodes.
    tie
        Whether that difference is within 2 standard errors.
    chosen
        Whether this is the one.
    """

    features: str
    prior_sd: float
    held_out_loss: float
    difference: float
    standard_error: float
    tie: bool
    chosen: bool


def choose_features(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: Sequence[FitSettings],
    rng_key: PRNGKeyArray,
) -> tuple[FitSettings, tuple[Alternative, ...]]:
    """Choose among settings that differ in features and prior.

    Parameters
    ----------
    logs, policies
        The input.
    settings
        The alternatives, at least one; they differ in ``features`` and ``prior`` only.
    rng_key
        Key that deals episodes into folds. Random features are the ones that the fit will use.

    Returns
    -------
    (FitSettings, tuple of Alternative)
        The chosen one, and all with their losses, in the order given.

    Raises
    ------
    LogsError
        There are fewer than two episodes for each fold, or fewer than ten.
    SettingsError
        No choice has a finite loss.

    Notes
    -----
    The folds are always fitted in the default form: Mahalanobis penalty, value constraint, identity
    link. What is judged is the ratio, by its residual.
    """
    folds = settings[0].numerics.folds
    if logs.n_episodes < 2 * folds:
        raise LogsError(
            f"features, prior: expected at least {2 * folds} episodes to choose by {folds} folds, "
            f"found {logs.n_episodes}. Give fewer folds, or one choice."
        )
    if logs.n_episodes < MIN_EPISODES:
        raise LogsError(
            f"features, prior: expected at least {MIN_EPISODES} episodes to choose by held-out "
            f"loss, found {logs.n_episodes}. Give one choice."
        )
    held_out = deal_folds(logs.n_episodes, folds, jax.random.fold_in(rng_key, 2))
    by_episode = [replace(each, cluster="episode") for each in settings]
    judged = replace(by_episode[0], features=default_features(logs), behavior="none")
    with jax.enable_x64(True):
        ratios, values = [], []
        for each in parts("choice of features", by_episode):
            found = read_inputs(logs, policies, each, rng_key)
            fitted = fit_folds(
                found.cells, found.candidates, ~held_out, each.form.moments, each.prior
            )
            ratios.append(fitted.ratio)
            values.append(fitted.value)
        found = read_inputs(logs, policies, judged, jax.random.fold_in(rng_key, 3))
        losses = np.asarray(
            held_out_losses(
                found.cells,
                found.candidates,
                jnp.stack(ratios),
                jnp.stack(values),
                jnp.asarray(held_out),
                judged.form.moments,
            )
        )
    losses = losses / len(found.names)
    mean = losses.mean(axis=1)
    if not np.isfinite(mean).any():
        raise SettingsError(
            "features, prior: expected a choice with a finite held-out loss, found none. Rescale "
            "the rewards to the order of 1, or give other features."
        )
    # A choice that could not be fitted cannot win.
    losses = np.where(np.isfinite(mean)[:, None], losses, np.inf)
    mean = losses.mean(axis=1)
    best = int(np.argmin(mean))
    difference = losses - losses[best]
    finite = np.where(np.isfinite(difference), difference, 0.0)
    error = finite.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
    table = tuple(
        Alternative(
            str(each.features),
            each.prior.ratio_sd,
            float(mean[i]),
            float(mean[i] - mean[best]),
            float(error[i]),
            bool(mean[i] - mean[best] <= TIE * error[i]),
            i == best,
        )
        for i, each in enumerate(settings)
    )
    return settings[best], table


def alternatives(
    features: FeatureChoice | Sequence[FeatureChoice], prior: Prior | Sequence[Prior]
) -> list[tuple[FeatureChoice, Prior]]:
    """All pairs of features and prior; each may be given as a list.

    Raises
    ------
    SettingsError
        A list is empty.
    """
    # One choice of features may itself be a NamedTuple.
    several = isinstance(features, list | tuple) and not isinstance(features, FeatureChoice)
    lists: dict[str, list[Any]] = {
        "features": [*cast("Sequence[FeatureChoice]", features)] if several else [features],
        "prior": list(prior) if isinstance(prior, list | tuple) else [prior],
    }
    for name, given in lists.items():
        if not given:
            raise SettingsError(f"{name}: expected at least one choice, found an empty list.")
    return [(chosen, width) for chosen in lists["features"] for width in lists["prior"]]
