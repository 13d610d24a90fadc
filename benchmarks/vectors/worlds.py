"""The worlds by name: who logs how much, who is judged, at which discount.

`make_world(name)` gives a world; `world.make(seed)` plays one of its logs, the same for the same
seed.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import GaussianPolicy
from benchmarks.vectors.bandit import bandit_policies, play_bandit
from benchmarks.vectors.physics import FINED_CART_POLE, PAID_CART_POLE, PENDULUM, Simulator
from benchmarks.vectors.play import play_log
from benchmarks.vectors.policies import SoftmaxPolicy, smooth_controller, swing_controller

LOGGING = "logging"
"""Name of the logging policy where it is a candidate itself."""

GAMMA = 0.99
PENDULUM_EPISODES, PENDULUM_STEPS = 80, 200
CART_POLE_EPISODES, CART_POLE_STEPS = 40, 200
"""Episodes of the logging policy last 86 steps on average, so that a log has about 3,400 rows; one
in twenty is cut by the time limit."""
REACHER_EPISODES, REACHER_STEPS = 25, 100
REACHER_TARGETS = (0.75, 0.9, 0.95)


class VectorWorld(NamedTuple):
    """A world with its logs and its candidates.

    Attributes
    ----------
    name
        One of `WORLDS`.
    gamma
        Discount.
    on_termination
        How a termination is read, ``"restart"`` or ``"absorb"``.
    logging
        The policy that writes the logs.
    policies
        Name -> candidate. The logging policy is one of them, named "logging", except on Reacher.
    make
        Seed -> a log with next observations and propensities (densities for vectors).
    simulator
        What is simulated for the truths, or None where another program does it.
    """

    name: str
    gamma: float
    on_termination: str
    logging: Any
    policies: Mapping[str, Any]
    make: Callable[[int], Logs]
    simulator: Simulator | None = None


@cache
def make_world(name: str) -> VectorWorld:
    """Build a world.

    Raises
    ------
    ValueError
        There is none of this name.
    """
    if name not in WORLDS:
        raise ValueError(f"worlds: expected some of {', '.join(WORLDS)}, found {name!r}.")
    return _BUILDERS[name](name)


def log_rng(name: str, seed: int) -> np.random.Generator:
    """The generator of one log of one world; other worlds draw otherwise from the same seed."""
    return np.random.default_rng([crc32(name.encode()), seed])


def _simulated(
    name: str,
    simulator: Simulator,
    policies: Mapping[str, Any],
    size: tuple[int, int],
    *,
    on_termination: str = "restart",
    n_actions: int | None = None,
) -> VectorWorld:
    def make(seed: int) -> Logs:
        rng = log_rng(name, seed)
        return play_log(simulator, policies[LOGGING], *size, rng, n_actions=n_actions)

    known = MappingProxyType(dict(policies))
    return VectorWorld(name, GAMMA, on_termination, policies[LOGGING], known, make, simulator)


def _pendulum(name: str) -> VectorWorld:
    """Smooth controllers that swing around the top; all visit much the same states."""
    usual = smooth_controller(0.03, 1.0, 0.2)
    policies = {
        "good": GaussianPolicy(smooth_controller(0.05, 1.0, 0.2), 0.6),
        "medium": GaussianPolicy(smooth_controller(0.02, 1.0, 0.2), 0.6),
        "noisy": GaussianPolicy(usual, 1.1),
        "weak": GaussianPolicy(smooth_controller(0.01, 1.0, 0.2), 0.6),
        LOGGING: GaussianPolicy(usual, 0.8),
    }
    return _simulated(name, PENDULUM, policies, (PENDULUM_EPISODES, PENDULUM_STEPS))


def _pendulum_swing(name: str) -> VectorWorld:
    """Bang-bang swing-up with a linear catch: small causes, large effects, long after."""
    policies = {
        "good": GaussianPolicy(swing_controller(2.0), 1.0),
        "medium": GaussianPolicy(swing_controller(1.5), 1.5),
        "noisy": GaussianPolicy(swing_controller(1.2), 2.0),
        "weak": GaussianPolicy(swing_controller(0.2), 1.5),
        LOGGING: GaussianPolicy(swing_controller(1.2), 1.5),
    }
    return _simulated(name, PENDULUM, policies, (PENDULUM_EPISODES, PENDULUM_STEPS))


def cart_pole_candidate(gain: float, bias: float = 0.0) -> SoftmaxPolicy:
    """Push right with log odds of gain times the regulator's score, plus a bias."""
    from bayesdice_ppl.envs.continuous import CART_POLE_GAINS

    right = gain * np.array(CART_POLE_GAINS)
    return SoftmaxPolicy(np.stack([np.zeros(4), right]), np.array([0.0, bias]))


def _cart_pole(name: str, simulator: Simulator, on_termination: str) -> VectorWorld:
    policies = {
        "good": cart_pole_candidate(9.0),
        "medium": cart_pole_candidate(7.5),
        "noisy": cart_pole_candidate(4.0),
        "drifting": cart_pole_candidate(6.0, 0.5),
        LOGGING: cart_pole_candidate(6.0),
    }
    return _simulated(
        name,
        simulator,
        policies,
        (CART_POLE_EPISODES, CART_POLE_STEPS),
        on_termination=on_termination,
        n_actions=2,
    )


def _bandit(name: str, n: int) -> VectorWorld:
    policies = bandit_policies()

    def make(seed: int) -> Logs:
        return play_bandit(policies[LOGGING], n, log_rng(name, seed))

    known = MappingProxyType(policies)
    return VectorWorld(name, 0.0, "restart", policies[LOGGING], known, make)


def _reacher(name: str, alpha: float) -> VectorWorld:
    import jax

    from bayesdice_ppl.simulation import make_world as library_world
    from bayesdice_ppl.simulation import simulate

    world = library_world("reacher", alpha=alpha, candidates=REACHER_TARGETS)

    def make(seed: int) -> Logs:
        key = jax.random.fold_in(jax.random.key(seed), crc32(name.encode()))
        return simulate(world.env, world.behavior, REACHER_EPISODES, REACHER_STEPS, rng_key=key)

    known = MappingProxyType(dict(world.candidates))
    return VectorWorld(name, world.gamma_hint, "restart", world.behavior, known, make)


_BUILDERS: dict[str, Callable[[str], VectorWorld]] = {
    "pendulum": _pendulum,
    "pendulum_swing": _pendulum_swing,
    "cartpole_restart": partial(_cart_pole, simulator=FINED_CART_POLE, on_termination="restart"),
    "cartpole_absorb": partial(_cart_pole, simulator=PAID_CART_POLE, on_termination="absorb"),
    "bandit_500": partial(_bandit, n=500),
    "bandit_5000": partial(_bandit, n=5_000),
    "reacher_0": partial(_reacher, alpha=0.0),
    "reacher_05": partial(_reacher, alpha=0.5),
}
WORLDS = tuple(_BUILDERS)
"""Names of the worlds.

On `cartpole_restart` a fall costs 1 and nothing else counts, since with CartPole's own reward every
policy earns 1 a step; on `cartpole_absorb` each step earns 1 until the fall.
"""
