"""A belief from a baseline's draws, with what the log supports of every candidate.

It has the groups and attributes that `bayesdice_ppl.select` reads, so that a ranking under it is
held to the same thresholds as one under BayesDICE's own.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from bayesdice_ppl.belief import SupportWarning, make_belief
from bayesdice_ppl.diagnostics.logged import logged_value
from bayesdice_ppl.diagnostics.support import (
    ESS_ABSTAIN,
    ESS_WARN,
    MOVED_ABSTAIN,
    MOVED_WARN,
    support_warnings,
)
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fit_warnings import constant_reward, much_left_out
from bayesdice_ppl.inference import make_settings
from bayesdice_ppl.preparation import prepare_fit
from bayesdice_ppl.prepared import measure_support

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.baselines.estimates import Estimates


def lay_out_draws(found: Estimates) -> DataTree:
    """Lay the draws of all candidates out as a belief; see `Estimates.belief`.

    Raises
    ------
    SettingsError
        The method gives no draws.
    """
    if not found.has_draws:
        raise SettingsError(
            f"{found.method.short} gives no draws, and so no belief; use order(by='value')."
        )
    logs = found.logs
    drawn = np.column_stack([np.asarray(each.draws) for each in found.estimates])
    logged = logged_value(logs, found.gamma, restart=found.on_termination == "restart")
    attrs: dict[str, Any] = {
        "method": found.method.short,
        "settings": found.settings,
        "versions": versions(),
        "n_transitions": logs.n_transitions,
        "n_episodes": logs.n_episodes,
        "n_terminated": int(logs.terminated.sum()),
        "logged_value": logged.value,
        "logged_value_standard_error": logged.standard_error,
        "logged_value_tail": logged.tail,
    }
    if found.rng_key is not None:
        attrs["rng_key"] = np.asarray(jax.random.key_data(found.rng_key)).tolist()
    groups = {"posterior": {"value": drawn}}
    if not (logs.vector_states or logs.vector_actions):
        figures, more = _support(found)
        groups["constant_data"] = figures
        attrs |= more
    return make_belief(groups, {"policy": list(found.names)}, attrs)


def warn_of_support(found: Estimates) -> list[dict[str, Any]]:
    """Say what the log cannot tell of the candidates, whatever the method makes of it.

    Returns
    -------
    list of dict
        `policy`, `reason` and `abstain` each, as in a belief's `support_warnings`. Of logs of
        vectors support is not measured here: few effective episodes are told, and values that no
        policy can have.
    """
    warnings: list[dict[str, Any]] = []
    if not (found.logs.vector_states or found.logs.vector_actions):
        warnings = _support(found)[1]["support_warnings"]
    told = (*few_episodes(found), *impossible_values(found))
    return [*warnings, *(warning._asdict() for warning in told)]


def impossible_values(found: Estimates) -> tuple[SupportWarning, ...]:
    """Warn of values outside of the rewards' range, where no mean of rewards can lie.

    Notes
    -----
    The range is that of the log, of 0 too where terminated episodes are absorbed, with a hundredth
    of its larger end to spare. A value that is outside by more than the range is wide says nothing,
    and abstains: a system that cannot be solved on this log, or propensities that are not those of
    the policy that logged.
    """
    rewards = found.logs.reward
    low, high = float(rewards.min()), float(rewards.max())
    if found.on_termination == "absorb" and found.logs.terminated.any():
        low, high = min(low, 0.0), max(high, 0.0)
    spare = 0.01 * max(abs(low), abs(high))
    warnings = []
    for name, each in zip(found.names, found.estimates, strict=True):
        beyond = max(low - each.value, each.value - high)
        if beyond > spare:
            reason = (
                f"its value, {each.value:.4g}, lies outside of the rewards' range, {low:.4g} to "
                f"{high:.4g}, where no policy's can be."
            )
            warnings.append(SupportWarning(name, reason, beyond > high - low + spare))
    return tuple(warnings)


def few_episodes(found: Estimates) -> tuple[SupportWarning, ...]:
    """Warn where importance weights leave few episodes to an estimate.

    Notes
    -----
    It warns below `ESS_WARN` and abstains below `ESS_ABSTAIN`, as the belief of
    `bayesdice_ppl.fit` does by its effective transitions: those are what its ratio weighs, and
    episodes what importance sampling does, of rows at gamma = 0. Abstaining ends `bayesdice select`
    with exit code 3, as it does under BayesDICE's belief: an order that hangs on a handful of
    episodes is no better founded for coming from another method. A log of fewer episodes than that
    cannot bear importance sampling at all.

    Marginalized importance sampling has no such number, for it weighs transitions; how many of
    these a ratio leaves is among the support warnings of logs of labels. Of logs of vectors nobody
    measures it here: ask `bayesdice_ppl.fit`, whose belief says it of the same features.
    """
    alone = found.gamma == 0.0
    m = found.logs.n_transitions if alone else found.logs.n_episodes
    return tuple(
        SupportWarning(
            name,
            f"rests on {each.effective_episodes:.1f} effective {'rows' if alone else 'episodes'} "
            f"of {m:,}, by its importance weights.",
            each.effective_episodes < ESS_ABSTAIN,
        )
        for name, each in zip(found.names, found.estimates, strict=True)
        if each.effective_episodes is not None and each.effective_episodes < ESS_WARN
    )


def versions() -> dict[str, str]:
    """Versions of the library and of what the numbers depend on."""
    return {name: version(name) for name in ("bayesdice-ppl", "jax", "numpy", "scipy")}


def _support(found: Estimates) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Figures and attributes that say what the log holds of every candidate."""
    settings = make_settings(gamma=found.gamma, on_termination=found.on_termination)
    prepared = prepare_fit(found.logs, found.policies, settings)
    support = measure_support(prepared)
    # What a method makes of unlogged actions is its own, and not that of `fit`.
    unmoved = support._replace(moved_mass=np.zeros(len(found.names)))
    warnings = [
        *(
            SupportWarning(
                name,
                f"takes actions that the log does not have at {moved:.1%} of its steps; what "
                f"they are worth is {found.method.short}'s own assumption.",
                bool(moved > MOVED_ABSTAIN),
            )
            for name, moved in zip(found.names, support.moved_mass, strict=True)
            if moved > MOVED_WARN
        ),
        *support_warnings(found.names, unmoved),
        *constant_reward(found.names, found.logs, prepared),
        *much_left_out(found.names, found.logs, prepared),
    ]
    return support._asdict(), {
        "rows_left_out": prepared.rows.left_out,
        "steps_left_out": list(prepared.rows.steps),
        "action_space": prepared.gathered.action_source,
        "n_actions": 0 if prepared.actions is None else len(prepared.actions),
        "support_warnings": [warning._asdict() for warning in warnings],
    }


__all__ = ["few_episodes", "impossible_values", "lay_out_draws", "versions", "warn_of_support"]
