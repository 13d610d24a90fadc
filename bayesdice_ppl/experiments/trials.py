"""Cells of an experiment and their trials: each trial is a new log of a world with a known truth.

A trial follows from the experiment's seed, its cell and its number alone, so that it is the same
whatever other trials run, in whatever order and process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, final
from zlib import crc32

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.checks import one_of
from bayesdice_ppl.envs import Bandit
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policies, Policy, TabularPolicy
from bayesdice_ppl.simulation import World, known_values, make_world, simulate
from bayesdice_ppl.simulation.worlds import CANDIDATES

PRIOR_BANDIT = "bandit-prior"
"""A two-armed bandit whose arms are drawn anew in each trial, from Beta(1, 1)."""

WORLDS = ("bandit", PRIOR_BANDIT, "frozenlake", "garnet", "taxi", "reacher")
"""Worlds that experiments are run in."""


@final
class Cell(NamedTuple):
    """What the trials of one cell have in common.

    Attributes
    ----------
    world
        One of `WORLDS`.
    behavior
        Place of the logging policy in the world's family, in [0, 1].
    n_episodes, max_steps
        Size of a log.
    n_trials
        How many logs.
    candidates
        Places of the candidates.
    """

    world: str
    behavior: float
    n_episodes: int
    max_steps: int
    n_trials: int
    candidates: tuple[float, ...] = CANDIDATES

    @property
    def name(self) -> str:
        """Name in tables, such as "frozenlake, behavior 0.5, 50 x 100"."""
        return f"{self.world}, behavior {self.behavior:g}, {self.n_episodes} x {self.max_steps}"

    @property
    def slug(self) -> str:
        """Name of the cell's folder."""
        return f"{self.world}_{self.behavior:g}_{self.n_episodes}x{self.max_steps}"


@final
class Plan(NamedTuple):
    """Which cells an experiment has, in full and in a quick run.

    Attributes
    ----------
    logs
        World -> kinds of log: alpha of the logging policy, episodes, and steps of an episode.
    trials
        World -> trials of a cell.
    quick_worlds, quick_trials
        Worlds of a quick run, with one kind of log each, and trials of a cell.
    candidates
        Places of the candidates.
    """

    logs: Mapping[str, Sequence[tuple[float, int, int]]]
    trials: Mapping[str, int]
    quick_worlds: tuple[str, ...]
    quick_trials: int
    candidates: tuple[float, ...] = CANDIDATES

    def cells(
        self,
        worlds: Sequence[str] | None = None,
        *,
        quick: bool = False,
        trials: int | None = None,
    ) -> tuple[Cell, ...]:
        """List the cells.

        Parameters
        ----------
        worlds
            Which worlds; None: all, or those of a quick run.
        quick
            One kind of log a world, and few trials.
        trials
            Trials of each cell; None: as planned.
        """
        usual = self.quick_worlds if quick else tuple(self.logs)
        return tuple(
            Cell(
                world,
                behavior,
                n_episodes,
                max_steps,
                trials or (self.quick_trials if quick else self.trials[world]),
                self.candidates,
            )
            for world in (usual if worlds is None else worlds)
            for behavior, n_episodes, max_steps in (
                self.logs[world][:2][-1:] if quick else self.logs[world]
            )
        )


@final
class Trial(NamedTuple):
    """One log, its candidates, and their true values.

    Attributes
    ----------
    cell
        The cell.
    number
        Which trial of the cell, from 0.
    logs
        The log.
    candidates
        Name -> policy, N of them, in random order: a method that breaks ties by the order of the
        candidates gains or loses nothing by it on average.
    places
        Place of each candidate in the world's family, in the same order.
    gamma
        Discount.
    truth
        True value of each candidate in reward per step, shape (N,).
    arms
        Probability that each arm pays, where the arms are drawn anew; else None.
    rng_key
        For whatever a method draws.
    """

    cell: Cell
    number: int
    logs: Logs
    candidates: dict[str, Policy | ContinuousPolicy]
    places: tuple[float, ...]
    gamma: float
    truth: Float[np.ndarray, " N"]
    arms: tuple[float, float] | None
    rng_key: PRNGKeyArray


def deal(cell: Cell, number: int, seed: int) -> Trial:
    """Play the log of one trial.

    Parameters
    ----------
    cell
        The cell.
    number
        Which trial, from 0.
    seed
        The experiment's.

    Raises
    ------
    SettingsError
        The cell's world is unknown, or holds no true value for a candidate.
    """
    key = jax.random.fold_in(jax.random.key(seed), crc32(cell.slug.encode()))
    world_key, log_key, method_key = jax.random.split(jax.random.fold_in(key, number), 3)
    if cell.world == PRIOR_BANDIT:
        rates = np.random.default_rng(seed_sequence(world_key)).beta(1.0, 1.0, size=2)
        arms = (float(rates[0]), float(rates[1]))
        world, truth = _prior_bandit(cell, arms)
    elif cell.world == "garnet":
        # A random world, another one in each trial.
        world_seed = int(seed_sequence(world_key).generate_state(1)[0])
        arms, (world, truth) = None, _world(cell.world, cell.behavior, cell.candidates, world_seed)
    else:
        arms, (world, truth) = None, _fixed_world(cell.world, cell.behavior, cell.candidates)
    logs = simulate(world.env, world.behavior, cell.n_episodes, cell.max_steps, rng_key=log_key)
    rng = np.random.default_rng(seed_sequence(jax.random.fold_in(world_key, 1)))
    order = rng.permutation(len(truth))
    named = list(world.candidates.items())
    return Trial(
        cell=cell,
        number=number,
        logs=logs,
        candidates=dict(named[one] for one in order),
        places=tuple(cell.candidates[one] for one in order),
        gamma=world.gamma_hint,
        truth=truth[order],
        arms=arms,
        rng_key=method_key,
    )


def _world(
    name: str, behavior: float, candidates: tuple[float, ...], world_seed: int | None = None
) -> tuple[World, np.ndarray]:
    """Make a world with the true values of its candidates."""
    one_of("world", name, WORLDS)
    options = {} if world_seed is None else {"world_seed": world_seed}
    world = make_world(name, alpha=behavior, candidates=candidates, **options)
    # The key is for worlds with simulated values, of which there is none here.
    known: dict[str, Any] = known_values(world, rng_key=jax.random.key(0))
    missing = [policy for policy in world.candidates if policy not in known]
    if missing:
        raise SettingsError(f"{name}: the true value of {missing[0]} is not known.")
    return world, np.array([float(known[policy]) for policy in world.candidates])


_fixed_world = lru_cache(maxsize=16)(_world)


def _prior_bandit(cell: Cell, arms: tuple[float, float]) -> tuple[World, np.ndarray]:
    """Make a bandit in which alpha is the share of the first arm, better or worse."""

    def policy_at(alpha: float) -> TabularPolicy:
        return TabularPolicy(np.array([[alpha, 1.0 - alpha]]))

    candidates = Policies({f"alpha_{one:.2f}": policy_at(one) for one in cell.candidates})
    world = World(
        env=Bandit(arms),
        behavior=policy_at(cell.behavior),
        candidates=candidates,
        gamma_hint=0.0,
        name=PRIOR_BANDIT,
        alphas=(cell.behavior, *cell.candidates),
    )
    share = np.array(cell.candidates)
    return world, share * arms[0] + (1.0 - share) * arms[1]
