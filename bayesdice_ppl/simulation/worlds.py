"""Worlds by name: an environment, a logging policy, candidates, and the usual discount."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.policies import Policies

if TYPE_CHECKING:
    import jax

    from bayesdice_ppl.simulation.true_values import TrueValue

CANDIDATES = (0.75, 0.8, 0.85, 0.9, 0.95)
"""Alphas of the paper's five candidates (Yang et al., appendix C.1)."""

SIMULATED_EPISODES = 200
"""Episodes of each value that `known_values` simulates."""


class World(NamedTuple):
    """The setting of an experiment.

    Parameters
    ----------
    env
        The environment, which never terminates.
    behavior
        The policy that writes the logs.
    candidates
        The policies to choose from.
    gamma_hint
        The discount at which this world is usually judged.
    name
        The name it was made by.
    alphas
        Where the logging policy and each candidate stand in the world's family, in this order.
    """

    env: Any
    behavior: Any
    candidates: Policies
    gamma_hint: float
    name: str
    alphas: tuple[float, ...]


def make_world(
    name: str, *, alpha: float = 0.5, candidates: Sequence[float] = CANDIDATES, **options: Any
) -> World:
    """Build a world by its name.

    Parameters
    ----------
    name
        "bandit", "contextualbandit", "frozenlake", "garnet", "riverswim" or "taxi", which are
        tabular; "cartpole" or "reacher" (with the `mujoco` extra), which are not.
    alpha
        The logging policy's place in the world's family of policies, in [0, 1]. At alpha = 0 a
        bandit never pulls the best arm, so its logs say nothing about the candidates.
    candidates
        The candidates' places, each in [0, 1], all different; named `alpha_0.75` and so on.
    **options
        bandit: `arms`. contextualbandit: `arms`, `contexts`. frozenlake: `map_name`, `desc`,
        `is_slippery`. garnet: `world_seed` (default 0: which world, and which random policy),
        `n_states`, `n_actions`, `branching`, `reward_sparsity`, `termination` (then restarted),
        `irreducible`. reacher: `restart_probability`. riverswim: `n_states`. taxi: `is_rainy`,
        `temperature` (of its policies).

    Returns
    -------
    World
        Environment, logging policy, candidates and discount.

    Raises
    ------
    SettingsError
        If the name or an option is unknown, or there are no or repeated candidates.
    EnvironmentSpecError
        If an option's value or an alpha is out of its range.
    """
    if not isinstance(name, str) or name not in _BUILDERS:
        raise SettingsError(
            f"world: expected one of {', '.join(sorted(_BUILDERS))}, found {name!r}."
        )
    build, allowed = _BUILDERS[name]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise SettingsError(
            f"world {name!r}: it has no option {unknown[0]!r}; its options are "
            f"{', '.join(allowed) or 'none'}."
        )
    try:
        places = [float(one) for one in candidates]
    except (TypeError, ValueError) as cause:
        raise SettingsError(
            f"candidates: expected a list of alphas in [0, 1], found {candidates!r}."
        ) from cause
    if not places or len(set(places)) != len(places):
        raise SettingsError(f"candidates: expected one or more different alphas, found {places}.")
    env, policy_at, gamma_hint = build(options)
    targets = Policies({_policy_name(one): policy_at(one) for one in places})
    return World(env, policy_at(alpha), targets, gamma_hint, name, (alpha, *places))


def known_values(world: World, *, rng_key: jax.Array) -> dict[str, TrueValue]:
    """True values of a world's policies at its usual discount.

    Parameters
    ----------
    world
        From `make_world`.
    rng_key
        A JAX key, for worlds whose values are simulated.

    Returns
    -------
    dict
        By name, "(logging policy)" first. Exact in tabular worlds; of Reacher, whose simulation
        takes minutes, only the values that are stored with the library.
    """
    from bayesdice_ppl.envs.reacher import RESTART_PROBABILITY
    from bayesdice_ppl.simulation.stored import stored_value
    from bayesdice_ppl.simulation.truth import true_value

    gamma = world.gamma_hint
    policies = {"(logging policy)": world.behavior, **world.candidates}
    if world.name == "reacher":
        plain = world.env.probability == RESTART_PROBABILITY
        stored = [stored_value("reacher", alpha, gamma) for alpha in world.alphas]
        return {
            name: value
            for name, value in zip(policies, stored, strict=True)
            if plain and value is not None
        }
    return {
        name: true_value(world.env, policy, gamma, rng_key=rng_key, n_episodes=SIMULATED_EPISODES)
        for name, policy in policies.items()
    }


def _policy_name(alpha: float) -> str:
    # Two digits for round alphas, so that names line up; as many as needed otherwise.
    return f"alpha_{alpha:.2f}" if round(alpha, 2) == alpha else f"alpha_{alpha}"


_Built = tuple[Any, Callable[[float], Any], float]


def _bandit(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import Bandit, bandit_policy

    env = Bandit(**options)
    return env, lambda alpha: bandit_policy(env, alpha), 0.0


def _contextual_bandit(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import ContextualBandit, contextual_bandit_policy

    env = ContextualBandit(**options)
    return env, lambda alpha: contextual_bandit_policy(env, alpha), 0.0


def _frozen_lake(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import InfiniteFrozenLake, frozen_lake_policy

    env = InfiniteFrozenLake(**options)
    return env, lambda alpha: frozen_lake_policy(env, alpha), 0.99


def _garnet(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import Garnet, Restart, garnet_policy

    sizes = {key: value for key, value in options.items() if key != "world_seed"}
    seed = options.get("world_seed", 0)
    # Restart changes nothing where nothing terminates.
    env = Restart(Garnet(seed=seed, **sizes))
    return env, lambda alpha: garnet_policy(env, alpha, seed=seed), 0.95


def _river_swim(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import RiverSwim, river_swim_policy

    env = RiverSwim(**options)
    return env, lambda alpha: river_swim_policy(env, alpha), 0.99


def _taxi(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import InfiniteTaxi, taxi_policy

    env = InfiniteTaxi(is_rainy=options.get("is_rainy", False))
    temperature = options.get("temperature", 1.0)
    return env, lambda alpha: taxi_policy(env, alpha, temperature=temperature), 0.99


def _cart_pole(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import InfiniteCartPole, cart_pole_policy

    return InfiniteCartPole(**options), cart_pole_policy, 0.99


def _reacher(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import InfiniteReacher, reacher_policy

    return InfiniteReacher(**options), reacher_policy, 0.99


_BUILDERS: dict[str, tuple[Callable[[dict[str, Any]], _Built], tuple[str, ...]]] = {
    "bandit": (_bandit, ("arms",)),
    "cartpole": (_cart_pole, ()),
    "contextualbandit": (_contextual_bandit, ("arms", "contexts")),
    "frozenlake": (_frozen_lake, ("map_name", "desc", "is_slippery")),
    "garnet": (
        _garnet,
        (
            "world_seed",
            "n_states",
            "n_actions",
            "branching",
            "reward_sparsity",
            "termination",
            "irreducible",
        ),
    ),
    "reacher": (_reacher, ("restart_probability",)),
    "riverswim": (_river_swim, ("n_states",)),
    "taxi": (_taxi, ("is_rainy", "temperature")),
}
