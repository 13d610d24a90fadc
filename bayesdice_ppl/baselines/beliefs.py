"""A belief from a baseline's draws, with what the log supports of every candidate.

It has the groups and attributes that `bayesdice_ppl.select` reads, so that a ranking under it is
held to the same thresholds as one under BayesDICE's own.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from bayesdice_ppl.baselines.support import support_of
from bayesdice_ppl.belief import make_belief
from bayesdice_ppl.diagnostics.logged import logged_value
from bayesdice_ppl.errors import SettingsError

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
    figures, more = support_of(found)
    if figures:
        groups["constant_data"] = figures
    attrs |= more
    return make_belief(groups, {"policy": list(found.names)}, attrs)


def versions() -> dict[str, str]:
    """Versions of the library and of what the numbers depend on."""
    return {name: version(name) for name in ("bayesdice-ppl", "jax", "numpy", "scipy")}


__all__ = ["lay_out_draws", "versions"]
