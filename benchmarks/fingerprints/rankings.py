"""Selections by every score, with and without rules, and what goes with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import xarray as xr

import bayesdice_ppl as bd
from benchmarks.fingerprints.digest import Case
from benchmarks.fingerprints.results import plain


@cache
def drawn(n_policies: int, n_draws: int = 300, *, tied: bool = False) -> xr.DataTree:
    """Give a belief of correlated draws in two chains, made of random numbers alone."""
    rng = np.random.default_rng(n_policies)
    root = rng.normal(size=(n_policies, n_policies)) / np.sqrt(n_policies)
    center = np.sort(rng.normal(size=n_policies)) * 0.4
    values = rng.normal(size=(2, n_draws // 2, n_policies)) @ root + center
    values = np.round(values, 1) if tied else values
    names = [f"policy_{place:02d}" for place in rng.permutation(n_policies)]
    data = xr.Dataset({"value": (("chain", "draw", "policy"), values)}, {"policy": names})
    warning = {"policy": names[0], "reason": "few effective transitions", "abstain": n_policies > 9}
    tree = xr.DataTree.from_dict({"posterior": data})
    tree.attrs["support_warnings"] = json.dumps([warning])
    return tree


def _distance(values: Any, ranking: Any) -> Any:
    listed = values[:, ranking]
    return ((listed[:, :1] - listed[:, 1:3]) * -1.0).sum(axis=1)


def scores(n_policies: int, risk: Any) -> dict[str, Any]:
    """Give every score there is."""
    made = bd.scores
    baseline = f"policy_{n_policies // 2:02d}"
    return {
        "precision": made.precision(2, risk=risk),
        "accuracy": made.accuracy(3, risk=risk),
        "regret": made.regret(2, risk=risk),
        "normalized_regret": made.normalized_regret(2, risk=risk),
        "ndcg": made.ndcg(3, risk=risk),
        "correlation": made.correlation(3, risk=risk),
        "spearman": made.spearman(risk=risk),
        "kendall": made.kendall(risk=risk),
        "safe_improvement": made.safe_improvement(baseline, xi=0.3, k=2, risk=risk),
        "custom": made.custom(_distance, depth=3, risk=risk),
    }


def _select_all(n_policies: int, risk: Any, *, tied: bool = False, **rules: Any) -> dict[str, Any]:
    belief = drawn(n_policies, tied=tied)
    found = {}
    for name, score in scores(n_policies, risk).items():
        if rules and score.launches(n_policies) is None:
            continue
        chosen = plain(bd.select(belief, score, **rules).to_dict())
        if found:
            # Means, intervals and support are those of the first score, in another order.
            del chosen["support"]
            chosen["table"] = [{"p_top_k": row["p_top_k"]} for row in chosen["table"]]
        found[name] = chosen
    return found


def _information() -> dict[str, Any]:
    belief = drawn(6)
    found: dict[str, Any] = {}
    for name, score in scores(6, None).items():
        try:
            worth = bd.value_of_information(belief, score)
        except bd.errors.BayesDiceError as refusal:
            found[name] = type(refusal).__name__
            continue
        found[name] = {
            "perfect": worth.perfect,
            "standard_error": worth.standard_error,
            "order": worth.order,
            **{column.name: column.to_numpy() for column in worth.table},
        }
    return found


def _by_k() -> dict[str, Any]:
    made, belief = bd.scores, drawn(8)
    found = {}
    for score in (made.regret, made.precision, made.ndcg, made.correlation):
        table = bd.loss_by_k(belief, score)
        found[score.__name__] = table.to_dict(as_series=False)
    return found


def cases() -> dict[str, Case]:
    """Give the selections."""
    tail = bd.risk.cvar(0.3)
    costs = {f"policy_{place:02d}": 1.0 + 0.5 * (place % 3) for place in range(7)}
    rules = {"costs": costs, "budget": 3.0, "must_exclude": ["policy_01"]}
    runs: dict[str, Callable[[], Any]] = {
        "all_orders": partial(_select_all, 6, None),
        "all_orders_tail": partial(_select_all, 6, tail),
        "tied": partial(_select_all, 6, None, tied=True),
        "solvers": partial(_select_all, 16, None),
        "solvers_tied": partial(_select_all, 14, None, tied=True),
        "solvers_tail": partial(_select_all, 13, tail, max_evaluations=3000),
        "budget": partial(_select_all, 7, None, **rules),
        "must_include": partial(_select_all, 14, None, must_include=["policy_07"]),
        "information": _information,
        "loss_by_k": _by_k,
        "ranks": lambda: {"p": bd.rank_probabilities(drawn(6, tied=True)).to_numpy()},
    }
    return {f"select/{name}": Case("exact", run) for name, run in runs.items()}
