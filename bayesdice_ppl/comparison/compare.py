"""Compare models, features and priors by how well their ratios meet the constraints held out.

Each model is fitted without each fold of episodes, and judged by its residual on the fold, on one
common set of test features. The score of an episode is minus its held-out loss. ArviZ takes the
scores as ELPD data, so that its table and its figure of a comparison work as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.comparison.models import settings_of
from bayesdice_ppl.comparison.weights import pseudo_values, stacking_weights
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.fitting.again import key_again
from bayesdice_ppl.fitting.defaults import default_features
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.prepare import MIN_EPISODES, read_inputs
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.fitting.units import in_units, units_of
from bayesdice_ppl.inference import Exact
from bayesdice_ppl.inference.held_out import deal_folds, fit_folds, held_out_products
from bayesdice_ppl.keys import check_key
from bayesdice_ppl.logs import Logs, check_held, check_one_reward
from bayesdice_ppl.policies import ContinuousPolicy, Policies, Policy
from bayesdice_ppl.progress import parts

if TYPE_CHECKING:
    import pandas as pd
    from arviz_stats.utils import ELPDData
    from xarray import DataTree

TIE = 2.0
"""Standard errors within which a difference is a tie."""
LEAST_OF_FOLD = 3
"""Fewest episodes of a fold; with two its loss has no standard error."""


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Models compared on held-out episodes.

    Attributes
    ----------
    elpd
        Model -> its scores as ArviZ's ELPD data, of which `arviz.compare` makes a table: the score
        of an episode is minus its held-out loss, summed over the candidates; 0 is best, but for
        noise.
    weights
        Model -> its weight in the mixture whose held-out loss is least.
    table
        What `arviz.compare` makes of the scores, best first, with these weights.
        `arviz.plot_compare` takes it.
    by_policy
        Mean score of each model for each candidate, shape (V, N), with their names.
    answer
        Which is best, and which are ties with it, in words.
    """

    elpd: Mapping[str, ELPDData]
    weights: Mapping[str, float]
    table: pd.DataFrame
    by_policy: pd.DataFrame
    answer: str

    def __str__(self) -> str:
        return f"{self.table.to_string()}\n\n{self.answer}"

    @property
    def best(self) -> str:
        """The model with the best score."""
        return str(self.table.index[0])

    @property
    def ties(self) -> tuple[str, ...]:
        """The models within 2 standard errors of the best one, itself included."""
        close = -self.table["elpd_diff"] <= TIE * self.table["dse"]
        return tuple(str(name) for name in self.table.index[close])


def compare(
    models: Mapping[str, DataTree | Mapping[str, Any]],
    logs: Logs,
    policies: Mapping[str, Any],
    *,
    rng_key: PRNGKeyArray,
    gamma: float | None = None,
    folds: int = 5,
    features: FeatureChoice | None = None,
) -> Comparison:
    """Compare models of the ratio, features and priors on held-out episodes.

    Parameters
    ----------
    models
        Name -> belief from `bayesdice_ppl.fit`, or the settings of a fit as a dict, such as
        ``{"model": bd.models.neural()}`` or ``{"features": mine, "prior": bd.Prior(1.0)}``. A
        belief keeps features of one's own only as text: give these as a dict.
    logs, policies
        The logs and the candidates.
    rng_key
        A key of `jax.random`, which deals episodes into folds. Beliefs keep the key of their own
        random features.
    gamma
        Discount, where no model is a belief, which says its own.
    folds
        Number of folds, by episode.
    features
        Test features by which all are judged. By default one-hot for labels, and up to 200 random
        Fourier features of state and action for vectors.

    Returns
    -------
    Comparison
        Print it, or look at ``.table``, ``.weights`` and ``.answer``.

    Raises
    ------
    LogsError
        There are fewer than three episodes for each fold, or fewer than ten; or the log has several
        rewards.
    SettingsError
        There are fewer than two models; they value different things; or one cannot be refitted.

    Notes
    -----
    With psi_e the residual of episode e under the fit that did not see it, and W the inverse of one
    episode's covariance at the models' average ratio, the score is -psi_e' W (mean of the fold's
    other psi) / 2. It does not reward a ratio of low variance, as a likelihood of psi_e would.
    What is handed to ArviZ are jackknife pseudo-values of these, since episodes share terms. The
    column ``p`` is by how much a model fits its own episodes better than those held out.

    Where a model fits as many functions as it has weights, and is judged by the same ones, its
    score is all noise of the fit. So a model with fewer features may win though it is less right:
    it is then the better one for a log of this size. And on vectors the many functions of the
    default may hide a gross fault that few would show: the answer then says so beside a tie.
    """
    check_key(rng_key)
    checks.whole("folds", folds, 2)
    if not isinstance(models, Mapping) or len(models) < 2:
        raise SettingsError(
            "compare: expected at least two models as a dict of name -> belief or settings, found "
            f"{len(models) if isinstance(models, Mapping) else type(models).__name__}."
        )
    check_held(logs, "a comparison")
    check_one_reward(logs.rewards, "a comparison")
    candidates = policies if isinstance(policies, Policies) else Policies(policies)
    settings = settings_of(models, logs, gamma)
    _check_episodes(logs, folds)
    units = units_of(logs, next(iter(settings.values())))
    judged = _judge_settings(logs, settings, features)
    scored = _score(
        in_units(logs, units),
        candidates,
        settings,
        {
            name: rng_key
            if isinstance(each, Mapping)
            else key_again(BeliefView(cast("DataTree", each)))
            for name, each in models.items()
        },
        deal_folds(logs.n_episodes, folds, jax.random.fold_in(rng_key, 2)),
        judged,
        jax.random.fold_in(rng_key, 3),
    )
    by_default = features is None and (logs.vector_states or logs.vector_actions)
    waves = str(judged.features) if by_default else ""
    return _lay_out(list(models), list(candidates), scored, waves)


def _check_episodes(logs: Logs, folds: int) -> None:
    least = max(MIN_EPISODES, LEAST_OF_FOLD * folds)
    if logs.n_episodes < least:
        raise LogsError(
            f"compare: expected at least {least} episodes for {folds} folds, found "
            f"{logs.n_episodes}. Give fewer folds, or log more episodes."
        )


def _judge_settings(
    logs: Logs, settings: Mapping[str, FitSettings], features: FeatureChoice | None
) -> FitSettings:
    """How the residuals by which all are judged are made."""
    first = next(iter(settings.values()))
    return FitSettings(
        first.gamma,
        features=default_features(logs) if features is None else features,
        on_termination=first.on_termination,
        cluster="episode",
        inference=Exact(),
    )


class _Scored(NamedTuple):
    """What the folds say.

    Attributes
    ----------
    products
        Held-out products of each two models, shape (N, V, V, m).
    fitted
        The models' losses on their own episodes, shape (N, V, m).
    held_out
        The episodes of each fold, shape (F, m).
    """

    products: Float[np.ndarray, "N V V m"]
    fitted: Float[np.ndarray, "N V m"]
    held_out: Bool[np.ndarray, "F m"]


def _score(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: Mapping[str, FitSettings],
    keys: Mapping[str, PRNGKeyArray],
    held_out: Bool[np.ndarray, "F m"],
    judged: FitSettings,
    rng_key: PRNGKeyArray,
) -> _Scored:
    everyone = np.ones((1, held_out.shape[1]), dtype=bool)
    with jax.enable_x64(True):
        judge = read_inputs(logs, policies, judged, rng_key)
        ratios, values = [], []
        for name in parts("comparison", list(settings)):
            own = settings[name]
            found = read_inputs(logs, policies, own, keys[name])
            fitted = fit_folds(
                found.cells,
                found.candidates,
                np.concatenate([~held_out, everyone]),
                own.form.moments,
                own.form.prior,
                own.model,
            )
            ratios.append(_onto(judge, found, np.asarray(fitted.ratio)))
            values.append(np.asarray(fitted.value))
            if not (np.isfinite(ratios[-1]).all() and np.isfinite(values[-1]).all()):
                raise SettingsError(
                    f"compare: the fit of {name!r} is not finite without some of the episodes. "
                    "Leave it out, or give it fewer features or a narrower prior."
                )
        ratio, value = jnp.asarray(np.stack(ratios)), jnp.asarray(np.stack(values))
        given = (judge.cells, judge.candidates)
        moments = judged.form.moments
        products = held_out_products(*given, ratio[:, :-1], value[:, :-1], held_out, moments)
        fitted = held_out_products(*given, ratio[:, -1:], value[:, -1:], everyone, moments)
    own_losses = np.einsum("nvvm->nvm", np.asarray(fitted))
    return _Scored(np.asarray(products), own_losses, held_out)


def _onto(
    judge: Inputs, found: Inputs, ratio: Float[np.ndarray, "F N C"]
) -> Float[np.ndarray, "F N D"]:
    """The ratio of each of the judge's cells; both count the same rows, in cells of their own."""
    cell, row = np.unique(judge.cell_of_row, return_index=True)
    moved = np.zeros((*ratio.shape[:2], len(judge.cells.count)))
    moved[:, :, cell] = ratio[:, :, found.cell_of_row[row]]
    return moved


def _lay_out(names: list[str], policies: list[str], scored: _Scored, waves: str) -> Comparison:
    import pandas as pd
    from arviz_stats import compare as compare_elpd

    losses = np.einsum("nvvm->nvm", scored.products)
    in_sample = scored.fitted.sum(axis=(0, 2))
    scores = -pseudo_values(losses.sum(axis=0), scored.held_out)
    elpd = {
        name: _as_elpd(score, float(-fitted - score.sum()), len(scored.held_out))
        for name, score, fitted in zip(names, scores, in_sample, strict=True)
    }
    weights = dict(
        zip(
            names,
            stacking_weights(scored.products.sum(axis=(0, 3))).tolist(),
            strict=True,
        )
    )
    # ArviZ's own weights would take the scores for log densities, which these are not.
    table = compare_elpd(elpd, method="pseudo-BMA", round_to="none")
    table["weight"] = [weights[str(name)] for name in table.index]
    by_policy = pd.DataFrame(-losses.mean(axis=2).T, index=names, columns=policies)
    answer = _answer(table, waves)
    return Comparison(elpd, weights, table, by_policy, answer)


def _as_elpd(score: Float[np.ndarray, " m"], surplus: float, folds: int) -> ELPDData:
    """The scores of one model as ArviZ's ELPD data of a K-fold."""
    from arviz_stats.utils import ELPDDataLOOKFold
    from xarray import DataArray

    m = len(score)
    return ELPDDataLOOKFold(
        elpd=float(score.sum()),
        se=float(np.sqrt(m) * score.std(ddof=1)),
        p=surplus,
        n_samples=0,
        n_data_points=m,
        scale="log",
        warning=False,
        good_k=cast("float", None),  # as a K-fold of ArviZ has it
        elpd_i=DataArray(score, dims="episode", coords={"episode": np.arange(m)}),
        n_folds=folds,
    )


def _answer(table: pd.DataFrame, waves: str) -> str:
    best, *others = [str(name) for name in table.index]
    told = []
    for name in others:
        difference, error = -table.loc[name, "elpd_diff"], table.loc[name, "dse"]
        if difference <= TIE * error:
            how = "a tie" if error == 0.0 else f"a tie ({difference / error:.1f} standard errors)"
        else:
            how = f"worse by {difference / error:.1f} standard errors"
        told.append(f"{name} is {how}")
    answer = f"{best} meets the constraints best on held-out episodes; {', '.join(told)}."
    if waves and any(" is a tie" in each for each in told):
        answer += (
            f" All were judged by {waves}, many functions at once, whose noise can hide what few "
            "would show: a tie does not say that both are right. Name a few to look for gross "
            "faults, such as features=bd.features.polynomial(3)."
        )
    return answer
