"""The defaults of a fit that depend on the log: features, model, engine, and who logged.

Labels get one weight for each logged pair. Vectors get the action ratio, where the logging policy
is known or can be cloned, times the exponential of smooth features; a bandit's needs no
exponential. The engine is the closed form wherever there is one; elsewhere on vectors the closed
form around the mode, and else SVI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesdice_ppl import features as feature_maps
from bayesdice_ppl.constraint import Constraint
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.features.columns import width_of
from bayesdice_ppl.inference import (
    Engine,
    Exact,
    Laplace,
    MinMax,
    Svi,
    engine_choice,
    no_closed_form,
)
from bayesdice_ppl.logs import AnyLogs, Logs
from bayesdice_ppl.models import RatioModel, TrainedModel, linear, model_choice
from bayesdice_ppl.policies import Clone
from bayesdice_ppl.policies.cloning.clone import check_rows

ROWS_PER_FEATURE, ROWS_PER_STATE_FEATURE = 25, 40
"""More features than one for so many transitions would follow the noise of the log."""
MOST_NUMBERS = 20_000_000
"""Most numbers in a table of features by transitions. A fit holds several for every candidate."""
AUTO = "auto"
"""The word that asks for the engine by rule, as None does."""
MOST_STATE_FEATURES = 300
"""Most features of the state."""
MANY_COLUMNS = 12
"""Numbers of a state past which each has waves of its own, in place of random ones of all."""
MOST_OWN_WAVES = 3
"""Most waves of each number then."""
TIMES_MEDIAN, TIMES_MEDIAN_MANY = 0.5, 0.25
"""Length scale of features of the state, in median distances; the second where they are most."""


def default_features(logs: Logs) -> FeatureChoice:
    """Features of state and action that suit a log: one-hot for labels, Fourier for vectors.

    For vectors there are up to 200, or 100 for each label beside a vector, and at most one for
    each 25 transitions; on a small log 10, or 2 for each label. On a large log there are as many
    as keep each candidate's table of features below a sixth of a gibibyte.
    """
    if not isinstance(logs, Logs) or not (logs.vector_states or logs.vector_actions):
        return feature_maps.one_hot()
    rows = logs.n_transitions
    most = min(rows // ROWS_PER_FEATURE, MOST_NUMBERS // rows)
    if logs.vector_states and logs.vector_actions:
        return feature_maps.fourier(_even(most, 200))
    vector, label = ("state", "action") if logs.vector_states else ("action", "state")
    labels = logs.action_labels if logs.vector_states else logs.state_labels
    return feature_maps.product(
        feature_maps.fourier(_even(most // len(labels), 100, least=2), of=vector),
        feature_maps.one_hot(of=label),
    )


def state_features(logs: Logs) -> FeatureChoice:
    """Features of the state alone, for a ratio whose action ratio is known; see `default_features`.

    Where one action changes little, features of state and action learn the state's value in place
    of the action's. The action ratio needs neither. Beside random waves each number stands by
    itself: with 20 columns of noise, waves alone left values off by four of their sds.
    """
    rows, states = logs.n_transitions, logs.state_labels
    size, most = states.shape[1], MOST_NUMBERS // rows
    number = _even(min(rows // ROWS_PER_STATE_FEATURE, most), MOST_STATE_FEATURES)
    own = 0
    if size > MANY_COLUMNS:
        # Random waves of so many numbers say nearly the same of every state but the nearest.
        own = min(max(round(number / (2 * size)), 1), MOST_OWN_WAVES)
    for waves in (own, 0):
        width = width_of(states, waves)
        left = _even(min(number - 2 * waves * size, most - width), MOST_STATE_FEATURES)
        if left + width <= rows // ROWS_PER_FEATURE:
            columns = feature_maps.columns("state", waves=waves)
            return feature_maps.concatenate(_random_waves(left, rows), columns)
    return _random_waves(number, rows)


def _random_waves(number: int, rows: int) -> FeatureChoice:
    """Waves of all numbers of the state together."""
    many = rows // ROWS_PER_STATE_FEATURE >= MOST_STATE_FEATURES
    times_median = TIMES_MEDIAN_MANY if many else TIMES_MEDIAN
    return feature_maps.fourier(number, times_median=times_median, of="state", recode=True)


def with_defaults(logs: AnyLogs, gamma: float, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what depends on the log.

    Parameters
    ----------
    logs
        The log.
    gamma
        Discount.
    given
        Fields of `bayesdice_ppl.fitting.FitSettings` that were asked for. None means that nothing
        was.

    Returns
    -------
    dict
        The same, with `features` and `inference`, and where the log has vectors `behavior` and
        `model`.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if chosen.get("inference") == AUTO:
        del chosen["inference"]
    constraint = chosen.get("constraint", Constraint())
    if not isinstance(constraint, Constraint):
        return chosen  # The settings refuse it.
    if not isinstance(logs, Logs) or not (logs.vector_states or logs.vector_actions):
        chosen.setdefault("features", feature_maps.one_hot())
        model = model_choice(chosen.get("model", linear()))
        chosen.setdefault("inference", default_engine(constraint, model))
        return chosen
    calibrated = constraint.calibrated
    # The mode of a ratio that is not linear moves with these.
    moves = constraint.searched or constraint.normalization is not None
    if "behavior" not in chosen:
        chosen["behavior"] = _behavior(logs, chosen) if calibrated else "none"
    known = chosen["behavior"] != "none"
    if "features" not in chosen:
        of_state = known and gamma > 0.0 and logs.vector_states
        chosen["features"] = state_features(logs) if of_state else default_features(logs)
    asked = chosen.get("inference")
    if "model" not in chosen and calibrated and known:
        # These have a closed form for a linear ratio alone.
        straight = asked is not None and isinstance(engine_choice(asked), Exact)
        straight = straight or moves
        # Without a future the action ratio is all of the ratio but for noise. A function around
        # it that may be negative covered as well as a positive one, in half the time or less.
        straight = straight or gamma == 0.0
        chosen["model"] = linear("identity" if straight else "exp")
    if asked is None:
        model = model_choice(chosen.get("model", linear()))
        mode = calibrated and constraint.closed_form_missing() is None and constraint.inner is None
        mode = mode and not (model.linear or moves or _needs_training(model))
        chosen["inference"] = Laplace() if mode else default_engine(constraint, model)
    return chosen


def default_engine(constraint: Constraint, model: RatioModel) -> Engine:
    """The closed form where there is one; SVI elsewhere, and where its multipliers are asked for.

    Both find the same posterior, and the closed form finds it a hundred times sooner. Networks that
    are to be trained have an engine of their own.
    """
    if _needs_training(model):
        return MinMax()
    closed = no_closed_form(constraint, model) is None and constraint.inner is None
    return Exact() if closed else Svi()


def _needs_training(model: RatioModel) -> bool:
    return isinstance(model, TrainedModel) and model.trained


def _behavior(logs: Logs, chosen: Mapping[str, Any]) -> str:
    """Where the logging policy is known from.

    Features that a user chose describe the whole ratio, and a clone is not put beside them.
    """
    if logs.propensity is not None:
        return "logged"
    if "features" in chosen:
        return "none"
    try:
        check_rows(logs, Clone())
    except LogsError:
        return "none"
    return "cloned"


def _even(number: int, most: int, least: int = 10) -> int:
    return int(np.clip(number - number % 2, least, most))
