"""What is compared: the settings of each model, from a belief or as they were given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.fitting.again import settings_again
from bayesdice_ppl.fitting.defaults import with_defaults
from bayesdice_ppl.fitting.settings import FitSettings, is_setting, refuse_moved, with_preset
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.moments import check_rewards

if TYPE_CHECKING:
    from xarray import DataTree

_OWN = ("gamma", "rng_key", "draws", "inference")


def settings_of(
    models: Mapping[str, DataTree | Mapping[str, Any]], logs: Logs, gamma: float | None
) -> dict[str, FitSettings]:
    """The settings of each model, with cells kept apart by episode.

    Parameters
    ----------
    models
        Name -> belief, or settings.
    logs
        The logs.
    gamma
        Discount of those that are no beliefs; None: that of the beliefs.

    Raises
    ------
    SettingsError
        A discount is missing; models value different things; one cannot be refitted.
    """
    beliefs = {
        name: BeliefView(cast("DataTree", each))
        for name, each in models.items()
        if _is_belief(each)
    }
    if gamma is None:
        known = [float(v.settings["gamma"]) for v in beliefs.values() if "gamma" in v.settings]
        if not known:
            raise SettingsError("gamma: expected a discount, as no model is a belief. Give gamma=.")
        gamma = min(known)
    found = {}
    for name, each in models.items():
        if name in beliefs:
            try:
                own = settings_again(beliefs[name], logs)
            except BeliefError as cause:
                raise SettingsError(
                    f"compare: {name!r}: {cause} In compare give its settings in place of the "
                    "belief: {'features': ..., 'model': ...}."
                ) from cause
        else:
            own = _given(name, each, logs, gamma)
        found[name] = replace(own, cluster="episode")
    _check(found)
    return found


def _is_belief(thing: Any) -> bool:
    return "posterior" in getattr(thing, "children", {})


def _given(name: str, each: Any, logs: Logs, gamma: float) -> FitSettings:
    """Settings from a dict of what `fit` takes."""
    if not isinstance(each, Mapping):
        raise SettingsError(
            f"compare: expected {name!r} to be a belief or a dict of settings, found "
            f"{type(each).__name__}."
        )
    for key in _OWN:
        if key in each:
            raise SettingsError(
                f"compare: {name!r}: expected settings of the ratio, found {key}. It is the same "
                "for all models, or plays no part in a comparison. Leave it out."
            )
    refuse_moved("compare", {key: value for key, value in each.items() if not is_setting(key)})
    given = with_defaults(logs, gamma, with_preset(each.get("preset"), dict(each)))
    settings = FitSettings(gamma, **given)
    check_rewards(settings.prior.rewards, logs.reward)
    return settings


def _check(found: Mapping[str, FitSettings]) -> None:
    """Refuse models that cannot be refitted, or that value different things."""
    (first, one), *_ = found.items()
    for name, each in found.items():
        if each.needs_training:
            raise SettingsError(
                f"compare: {name!r}: expected a model with a first estimate, found {each.model}, "
                "whose networks are trained for minutes. Leave it out."
            )
        if not each.plain:
            raise SettingsError(
                f"compare: {name!r}: expected the mean reward, found the statistic "
                f"{', '.join(map(str, each.statistic))}. Compare fits of the mean."
            )
        if (each.gamma, each.on_termination) != (one.gamma, one.on_termination):
            raise SettingsError(
                f"compare: expected one gamma and one on_termination, found {one.gamma:g}, "
                f"{one.on_termination!r} for {first!r} and {each.gamma:g}, "
                f"{each.on_termination!r} for {name!r}. Their values are different things."
            )
