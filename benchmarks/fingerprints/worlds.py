"""Small logs with candidates, each made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd


class Setting(NamedTuple):
    """Logs, candidates and the discount at which they are judged."""

    logs: bd.Logs
    policies: Mapping[str, Any]
    gamma: float


ARMS = ((0.3, 0.5, 0.6), (0.7, 0.2, 0.4))
"""Rates of three arms in two contexts."""


@cache
def world(name: str) -> Setting:
    """Make a setting by its name, once."""
    return _WORLDS[name]()


def _played(
    name: str, episodes: int, steps: int, candidates: tuple[float, ...], **options: Any
) -> Setting:
    made = bd.simulation.make_world(name, candidates=candidates, **options)
    logs = bd.simulate(made.env, made.behavior, episodes, steps, rng_key=jax.random.key(5))
    return Setting(logs, made.candidates, made.gamma_hint)


def _ending() -> Setting:
    """Episodes of unequal lengths that terminate, are cut, and repeat transitions."""
    rng = np.random.default_rng(7)
    moves = rng.dirichlet(np.full(4, 0.5), size=(4, 2))
    rows = []
    for episode in range(40):
        state = int(rng.integers(4))
        for step in range(int(rng.integers(2, 9))):
            action, following = int(rng.integers(2)), 0
            following = int(rng.choice(4, p=moves[state, action]))
            ended = bool(rng.random() < 0.15)
            rows.append((episode, step, state, action, float(rng.integers(3)), following, ended))
            if ended:
                break
            state = following
    names = ["episode_id", "step", "state", "action", "reward", "next_state", "terminated"]
    tables = rng.dirichlet(np.ones(2), size=(3, 4))
    policies = bd.Policies({f"p{j}": bd.TabularPolicy(table) for j, table in enumerate(tables)})
    return Setting(
        bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row")), policies, 0.9
    )


def _plane() -> Setting:
    """Vectors of states and of actions, with densities of what was logged."""
    rng = np.random.default_rng(3)
    rows = []
    for episode in range(15):
        seen = rng.normal(size=2)
        for step in range(12):
            action = 0.3 * seen[0] + rng.normal()
            reward = float(np.exp(-((action - seen[1]) ** 2)))
            density = float(np.exp(-0.5 * (action - 0.3 * seen[0]) ** 2) / np.sqrt(2.0 * np.pi))
            rows.append((episode, step, *seen, action, reward, density))
            seen = 0.7 * seen + 0.2 * action + 0.4 * rng.normal(size=2)
    names = ["episode_id", "step", "obs_0", "obs_1", "action_0", "reward", "propensity"]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
    policies = {
        "steady": bd.GaussianPolicy(lambda obs: 0.3 * obs[:, :1], 0.8),
        "follow": bd.GaussianPolicy(lambda obs: 0.5 * obs[:, 1:], 0.9),
    }
    return Setting(logs, policies, 0.8)


def _clicks() -> Setting:
    found = bd.datasets.open_bandit()
    return Setting(found.logs, found.policies, 0.0)


_WORLDS: dict[str, Callable[[], Setting]] = {
    "garnet": partial(
        _played, "garnet", 20, 20, (0.7, 0.8, 0.9), world_seed=1, n_states=5, n_actions=3
    ),
    "lake": partial(_played, "frozenlake", 25, 40, (0.75, 0.85, 0.95), alpha=0.2),
    "contextual": partial(_played, "contextualbandit", 200, 1, (0.6, 0.75, 0.9), arms=ARMS),
    "bandit": partial(_played, "bandit", 120, 1, (0.6, 0.75, 0.9)),
    "pole": partial(_played, "cartpole", 12, 25, (0.6, 0.9)),
    "ending": _ending,
    "plane": _plane,
    "clicks": _clicks,
}
