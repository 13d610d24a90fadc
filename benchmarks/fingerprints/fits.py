"""Fits of every engine, penalty, surrogate, statistic and feature map, and diagnoses of some."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

import bayesdice_ppl as bd
from benchmarks.fingerprints.digest import Case
from benchmarks.fingerprints.results import describe
from benchmarks.fingerprints.worlds import world

DRAWS = 400
_BEFORE = (
    "observed_data/",
    *("constant_data/influential", "constant_data/effective_sample", "constant_data/moved_mass"),
    *("constant_data/lost_mass", "constant_data/negative_mass", "constant_data/pair_"),
    *("constant_data/prior_", "constant_data/coords/pair", "constant_data/pilot_ratio"),
)
"""Variables that are there before an engine runs."""


def fit_with(logs: bd.Logs, policies: Mapping[str, Any], key: int, **flat: Any) -> xr.DataTree:
    """Fit; the one place that knows how `bayesdice_ppl.fit` takes its settings.

    Parameters
    ----------
    logs, policies, key
        Input, and the seed.
    **flat
        Every choice on one level; ``svi`` and ``nuts`` are mappings of an engine's settings.
    """
    return bd.fit(logs, policies, rng_key=jax.random.key(key), **_grouped(flat))


def _grouped(flat: dict[str, Any]) -> dict[str, Any]:
    """Put settings into the objects that `fit` takes."""
    left = dict(flat)
    parts = {
        "constraint": (
            bd.Constraint,
            {
                name: name
                for name in (
                    *("penalty", "surrogate", "lam", "epsilon", "xi", "value_constraint"),
                    *("small_sample", "normalization", "inner"),
                )
            },
        ),
        "numerics": (bd.Numerics, {"action_draws": "action_draws", "folds": "folds"}),
        "prior": (bd.Prior, {"prior_sd": "ratio_sd", "value_prior_sd": "value_sd"}),
    }
    widths = left.get("prior_sd")
    if isinstance(widths, list):
        left["prior"] = [bd.Prior(ratio_sd=width) for width in left.pop("prior_sd")]
    for part, (make, names) in parts.items():
        given = {names[name]: left.pop(name) for name in tuple(left) if name in names}
        if given:
            left[part] = make(**given)
    for name, engine in (("svi", "Svi"), ("nuts", "Nuts")):
        if name in left:
            left["inference"] = getattr(bd.inference, engine)(**left.pop(name))
    if "link" in left:
        left["model"] = bd.models.linear(link=left.pop("link"))
    return left


def _fit(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    given = world(name)
    flat = {"gamma": given.gamma, "draws": DRAWS, **settings}
    found = describe(fit_with(given.logs, given.policies, 11, **flat))
    if settings.get("inference") == "exact":
        return found
    # What comes before the engine is the same as in the closed form.
    return {name: each for name, each in found.items() if not name.startswith(_BEFORE)}


def _squashed(reward: Any) -> Any:
    return np.tanh(np.asarray(reward))


def _by_hand(obs: Any, action: Any) -> np.ndarray:
    code = np.asarray(action, dtype=float).reshape(len(obs), -1)[:, 0]
    return np.column_stack([np.ones(len(obs)), np.asarray(obs), code, code * np.asarray(obs)[:, 0]])


def _fits() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Give every fit: name -> kind, world and settings."""
    maps, stats, kernels = bd.features, bd.statistics, bd.features.kernels
    linear = maps.product(maps.polynomial(1, of="state"), maps.one_hot(of="action"))
    exact = {
        "plain": ("garnet", {}),
        "independent": ("garnet", {"joint": False}),
        "large_sample": ("garnet", {"small_sample": False}),
        "no_value_constraint": ("garnet", {"value_constraint": False}),
        "squared": ("garnet", {"penalty": "squared"}),
        "paper": ("garnet", {"preset": "paper"}),
        "by_episode": ("garnet", {"cluster": "episode"}),
        "normalization": ("garnet", {"normalization": True}),
        "price_search": ("garnet", {"lam": "search", "xi": 0.8}),
        "price_given": ("garnet", {"lam": 0.7, "epsilon": 0.02, "xi": 0.9}),
        "priors": ("garnet", {"prior_sd": 3.0, "value_prior_sd": 2.0}),
        "average_reward": ("garnet", {"gamma": 1.0}),
        "average_reward_own_normalization": ("garnet", {"gamma": 1.0, "normalization": True}),
        "no_discount_ahead": ("garnet", {"gamma": 0.0}),
        "logged": ("garnet", {"include_logged": True}),
        "cvar": ("garnet", {"statistic": "cvar(0.2)"}),
        "transform": ("garnet", {"statistic": stats.mean(_squashed)}),
        "statistics": (
            "garnet",
            {
                "statistic": [
                    *(stats.cvar(0.2), stats.quantile(0.5), stats.variance()),
                    *(stats.mean_variance(0.5), stats.mean(_squashed), "mean"),
                ],
                "include_logged": True,
            },
        ),
        "features_chosen": (
            "garnet",
            {"features": [maps.one_hot(), _table(5, 3)], "prior_sd": [1.0, 10.0], "folds": 2},
        ),
        "table": ("garnet", {"features": _table(5, 3)}),
        "restart": ("ending", {}),
        "absorb": ("ending", {"on_termination": "absorb"}),
        "absorb_by_episode": ("ending", {"on_termination": "absorb", "cluster": "episode"}),
        "absorb_statistics": (
            "ending",
            {"on_termination": "absorb", "statistic": ["mean", "cvar(0.3)", "variance"]},
        ),
        "restart_average": ("ending", {"gamma": 1.0}),
        "lake": ("lake", {}),
        "contextual": ("contextual", {}),
        "bandit": ("bandit", {}),
        "clicks": ("clicks", {}),
        "pole": ("pole", {}),
        "pole_product": (
            "pole",
            {"features": maps.product(maps.fourier(6, of="state"), maps.one_hot(of="action"))},
        ),
        "pole_chosen": ("pole", {"features": linear, "prior_sd": [1.0, 10.0], "folds": 2}),
        "pole_function": ("pole", {"features": maps.function(_by_hand)}),
        "plane": ("plane", {"features": maps.polynomial(2)}),
        "plane_concatenated": (
            "plane",
            {
                "features": maps.concatenate(
                    maps.fourier(8, of="state"), maps.polynomial(2, of="action")
                ),
                "action_draws": 8,
            },
        ),
        "plane_process": (
            "plane",
            {
                "features": maps.gaussian_process(
                    kernels.sum_of(kernels.matern(2.5, 1.0), kernels.squared_exponential(2.0)),
                    n_inducing=12,
                )
            },
        ),
        "plane_squared": (
            "plane",
            {"features": maps.fourier(10), "penalty": "squared", "cluster": "transition"},
        ),
    }
    short = {"windows": 2, "steps": 150, "particles": 2}
    svi = {
        "plain": ("garnet", {}),
        "inner_exact": ("garnet", {"inner": "exact"}),
        "squared": ("garnet", {"penalty": "squared"}),
        "power": ("garnet", {"penalty": bd.penalties.power(1.5)}),
        "huber": ("garnet", {"penalty": "huber(0.05)"}),
        "cvar": ("garnet", {"surrogate": "cvar"}),
        "cvar_level": ("garnet", {"surrogate": bd.surrogates.cvar(0.3)}),
        "bernstein": ("garnet", {"surrogate": "bernstein"}),
        "bernstein_level": ("garnet", {"surrogate": "bernstein(2)"}),
        "cdf": ("garnet", {"surrogate": "cdf"}),
        "softplus": ("garnet", {"link": "softplus"}),
        "softplus_cvar": (
            "ending",
            {
                "link": "softplus",
                "value_constraint": False,
                "on_termination": "absorb",
                "statistic": "cvar(0.3)",
            },
        ),
        "normalization": ("garnet", {"normalization": True}),
        "price_search": ("garnet", {"lam": "search", "xi": 0.8}),
        "quantile": ("garnet", {"statistic": "quantile(0.5)", "include_logged": True}),
        "contextual": ("contextual", {}),
        "pole": ("pole", {"features": linear}),
    }
    few = {"chains": 2, "warmup": 30, "max_tree_depth": 3}
    nuts = {
        "plain": ("bandit", {}),
        "softplus_huber": (
            "bandit",
            {"link": "softplus", "penalty": "huber(0.05)", "surrogate": "cvar(0.3)"},
        ),
    }
    return (
        {
            f"fit/exact/{name}": ("exact", where, settings | {"inference": "exact"})
            for name, (where, settings) in exact.items()
        }
        | {
            f"fit/svi/{name}": ("svi", where, settings | {"inference": "svi", "svi": short})
            for name, (where, settings) in svi.items()
        }
        | {
            f"fit/nuts/{name}": (
                "nuts",
                where,
                settings | {"inference": "nuts", "nuts": few, "draws": 80},
            )
            for name, (where, settings) in nuts.items()
        }
    )


def _table(n_states: int, n_actions: int) -> Any:
    values = np.random.default_rng(2).normal(size=(n_states, n_actions, 4))
    return bd.features.table(values, states=range(n_states), actions=range(n_actions))


def _diagnose(name: str, settings: Mapping[str, Any], *, logs: bool, policies: bool) -> Any:
    given = world(name)
    flat = {"gamma": given.gamma, "draws": DRAWS, **settings}
    belief = fit_with(given.logs, given.policies, 11, **flat)
    found = bd.diagnose(
        belief, given.logs if logs else None, given.policies if policies else None
    ).table
    return {"check": found["check"].to_list(), "passed": [str(one) for one in found["passed"]]}


def _diagnoses() -> dict[str, Case]:
    """Give the diagnoses."""
    short = {"windows": 2, "steps": 150, "particles": 2}
    rows = {
        "exact": ("garnet", {"inference": "exact"}, True, True),
        "svi": ("garnet", {"svi": short}, True, True),
        "clicks": ("clicks", {"inference": "exact"}, True, False),
        "absorb": ("ending", {"inference": "exact", "on_termination": "absorb"}, True, False),
        "quantile": ("garnet", {"inference": "exact", "statistic": "quantile(0.5)"}, False, False),
        "pole": ("pole", {"inference": "exact"}, True, False),
        "plane": ("plane", {"inference": "exact"}, True, False),
    }
    return {
        f"diagnose/{name}": Case(
            "exact", partial(_diagnose, where, settings, logs=logs, policies=policies)
        )
        for name, (where, settings, logs, policies) in rows.items()
    }


def cases() -> dict[str, Case]:
    """Give every fit and every diagnosis."""
    fits = {
        name: Case(kind, partial(_fit, where, settings))
        for name, (kind, where, settings) in _fits().items()
    }
    return fits | _diagnoses()
