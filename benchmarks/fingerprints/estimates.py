"""Estimates of every other method, in several worlds."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

import bayesdice_ppl as bd
from benchmarks.fingerprints.digest import Case
from benchmarks.fingerprints.results import describe, settings_text
from benchmarks.fingerprints.worlds import world

NETWORKS = {
    "fqe_mlp": {"refits": 4, "steps": 5, "width": 8},
    "bdqn": {"refits": 4, "steps": 5, "width": 8, "draws": 50},
}
SAMPLED = {
    "dirichlet": {"draws": 60},
    "lstdq_bootstrap": {"draws": 60},
    "beta": {"draws": 60},
}


def _estimate(name: str, where: str) -> dict[str, Any]:
    given = world(where)
    options = {**NETWORKS, **SAMPLED}.get(name, {})
    known = bd.baselines.make(name)
    options = {key: value for key, value in options.items() if hasattr(known, key)}
    try:
        method = bd.baselines.make(name, **options)
        found = bd.baselines.estimate_all(
            method, given.logs, given.policies, gamma=given.gamma, rng_key=jax.random.key(13)
        )
    except bd.errors.BayesDiceError as refusal:
        return {"refused": type(refusal).__name__}
    kept: dict[str, Any] = {
        "table": found.table.drop("policy").to_dict(as_series=False),
        "order": found.order(),
        "settings": settings_text(found.settings),
        "warned": [sentence.partition(":")[0] for sentence in found.support_warnings],
    }
    if found.has_draws:
        kept["belief"] = describe(found.belief())
    return kept


def cases() -> dict[str, Case]:
    """Give every method with each of its options, each in the worlds that it is for."""
    names = [
        ":".join((row["name"], *option))
        for row in bd.baselines.catalog().to_dicts()
        for option in [(), *((one,) for one in row["options"].split(", ") if one)]
    ]
    found = {}
    for name in names:
        base = name.partition(":")[0]
        wheres = ["garnet", "contextual"] if base != "mwl_kernel" else []
        if base in ("beta",):
            wheres = ["bandit"]
        if base in ("lstdq", "dirichlet", "wpdis", "dr", "best_dice"):
            wheres.append("ending")
        if base in ("is", "wpdis", "lstdq", "fqe", "dual_dice"):
            wheres.append("pole")
        if base in ("wis", "lstdq", "mwl_kernel", "fqe_mlp"):
            wheres.append("plane")
        kind = "network" if base in NETWORKS else "exact"
        found |= {
            f"baseline/{name}/{where}": Case(kind, partial(_estimate, name, where))
            for where in (wheres if ":" not in name else wheres[:1])
        }
    return found | {"baseline/bayes_optimal": Case("exact", _best_possible)}


def _best_possible() -> dict[str, Any]:
    shares = np.array([0.2, 0.5, 0.9])
    found = bd.baselines.bayes_optimal_ranking([3, 5], [9, 8], shares, bd.scores.regret(1))
    return {"ranking": np.asarray(found.ranking)}
